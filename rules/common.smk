# The study, its trials, and where their files are. Nothing here writes a file.
import hashlib
import inspect
import os
import shutil
from contextlib import contextmanager

import snakemake.script
from snakemake.common import overwrite_function_params
from snakemake.exceptions import WorkflowError
from snakemake.resources import Resource

try:
    from storewise.errors import StorewiseError
    from storewise.schedulers.pbs import parse_selects
    from storewise.session.coordination.private import restrict_umask
    from storewise.study.host_classes import parse_classes, text_of
    from storewise.study.load import find_study, load_study
    from storewise.study.references import find_reference, reference_texts
    from storewise.study.shares import Share
    from storewise.study.trial import job_name, node_jobs
    from storewise.workloads.registry import workload as workload_named
except ImportError as error:
    raise WorkflowError(
        f"Storewise is not installed for the Python that runs Snakemake ({error}); "
        "run `make env` and then `.venv/bin/snakemake`, or activate .venv"
    )

restrict_umask()  # each job reads this file too
# Of the jobs' programs, wherever they run: names of input files are UTF-8, whatever the locale.
os.environ.update(PYTHONUTF8="1")


@contextmanager
def user_errors():
    """An error that is told in one sentence."""
    try:
        yield
    except StorewiseError as error:
        raise WorkflowError(str(error))


HOME = Path(workflow.current_basedir.get_path_or_uri(secret_free=True)).parent


# ---- The study -----------------------------------------------------------------------------

if unknown := sorted(set(config) - {"study", "scale", "many"}):
    raise WorkflowError(
        f"--config {' '.join(unknown)}: not known; --config takes study=NAME|PATH, scale=NAME and "
        "many=true. Everything else stands in the study's file."
    )
STUDY_NAME = config.get("study", "demo")
if not isinstance(STUDY_NAME, str):
    raise WorkflowError(
        f"--config study={STUDY_NAME}: Snakemake has read a number; give the path of the study's "
        "file, such as study=config/studies/1e3.yaml"
    )
MANY = str(config.get("many", False)).lower()
if MANY not in ("true", "false"):
    raise WorkflowError(f"--config many={config['many']}: is either true or false")
with user_errors():
    STUDY = load_study(
        STUDY_NAME, scale=config.get("scale"), root=HOME, many=MANY == "true"
    )
    STUDY_FILE = find_study(STUDY_NAME, HOME)
    # Their texts go with the results, which are analysed without this repository, too.
    REFERENCES = reference_texts(
        find_reference(name, HOME, STUDY_FILE.parent) for name in STUDY.references
    )
    # What the profile says of the hosts of database servers, as resources of rule `node`.
    NODE = workflow.resource_settings.overwrite_resources.get("node", {})
    HOST_CLASSES = parse_classes(
        text_of(NODE["node_classes"].raw) if "node_classes" in NODE else ""
    )
    NODE_SELECTS = parse_selects(
        text_of(NODE["node_selects"].raw) if "node_selects" in NODE else ""
    )

PHASES = workload_named(STUDY.workload).phases
LOAD = next(phase.name for phase in STUDY.phases if PHASES[phase.name].loads)
AFTER_LOAD = [phase.name for phase in STUDY.phases if not PHASES[phase.name].loads]
ALL_TRIALS = {trial.id: trial for trial in STUDY.trials()}


# ---- Files ---------------------------------------------------------------------------------

R = f"results/{STUDY.name}"
T = f"{R}/trials/{{trial}}"
REPORT = f"{R}/report.html"
# Where Python finds the results: as a module of another workflow, this one has a prefix.
RESULTS = workflow.modifier.modify_path(R)
IS_MODULE = not workflow.modifier.is_main_snakefile()
# With several workers a job, each job leaves an index of its workers' files. It is named by the
# number of its first worker.
ONE_EACH = STUDY.workers_per_job == 1


wildcard_constraints:
    trial="|".join(ALL_TRIALS),
    phase=r"[a-z][a-z0-9_]*",
    worker=r"\d+",
    node=r"[a-z]+\d+",
    part=r"\d+",
    shards=r"\d+(of[0-9.e-]+)?",


def trial_of(wildcards):
    return ALL_TRIALS[wildcards.trial]


def share(trial):
    """How a trial's workers share jobs, and where they leave their files."""
    return Share.of(trial, Path(f"{R}/trials/{trial.id}"), STUDY.workers_per_job)


def phase_results(trial, phase):
    """What stands for the results of all workers of one phase."""
    return list(map(str, share(trial).outputs(phase)))


def stores(trial):
    """The store directories that the jobs of a trial's load make."""
    return [f"{R}/trials/{trial.id}/store.{first}" for first in share(trial).firsts]


def shards_of(trial):
    """The list of a trial's shards, where its workload reads inputs."""
    if not workload_named(STUDY.workload).reads_inputs:
        return []
    return [f"{R}/inputs/shards/{trial.shard_list}.parquet"]


def nodes(trial):
    """The nodes of a trial's cluster that are jobs of their own, by name."""
    return {spec.name: spec for spec in node_jobs(trial)}


def cluster(trial):
    """The formed cluster of a trial with servers."""
    return [f"{R}/live/{trial.id}/cluster.json"] if nodes(trial) else []


def last_outputs(trial):
    """What comes last of a complete trial: all else was there before it."""
    parts = [f"{R}/trials/{trial.id}/node.{name}.parquet" for name in nodes(trial)]
    if parts:
        parts.append(f"{R}/trials/{trial.id}/session.parquet")
    return [f"{R}/trials/{trial.id}/verify.parquet", *parts]


def final_outputs(trial):
    """What a complete trial leaves."""
    phases = [phase_results(trial, phase.name) for phase in trial.phases]
    return [*(part for parts in phases for part in parts), *last_outputs(trial)]


# ---- Plans of many jobs: docs/architecture.md says what each of the two changes saves. ----


def read_once(path, *arguments, read=snakemake.script.get_source, sources={}):
    """The source of a script: Snakemake reads it anew for each job when it plans."""
    if str(path) not in sources:
        sources[str(path)] = read(path, *arguments)
    return sources[str(path)]


snakemake.script.get_source = read_once
# Of each resource of each job Snakemake would look at the parameters of this function.
overwrite_function_params(
    Resource.evaluate, inspect.signature(Resource("threads", 1).evaluate).parameters
)


# ---- Values of rules -----------------------------------------------------------------------


def per_trial(function):
    """What a function of a trial says, for a rule: the one value where all trials have the same,
    else a function of wildcards that asks it once for each trial. A phase may have hundreds of jobs,
    and of each function Snakemake looks at the parameters anew for each job unless it is told them.
    """
    values = {name: function(trial) for name, trial in ALL_TRIALS.items()}
    first, *others = values.values()
    if all(value == first for value in others):
        return first

    def value_of(wildcards):
        return values[wildcards.trial]

    overwrite_function_params(value_of, inspect.signature(value_of).parameters)
    return value_of


# What each job of a trial is given.
TRIAL = per_trial(lambda trial: trial.model_dump(mode="json"))


def run_local(rule_name):
    """Whether the profile wants a rule in the main process."""
    chosen = workflow.resource_settings.overwrite_resources.get(rule_name, {})
    return "run_local" in chosen and bool(chosen["run_local"].value)


def engine_environment(trial):
    """The conda environment with an engine's servers, where there is one."""
    special = HOME / "envs" / f"{trial.engine}.yaml"
    return str(special if special.exists() else HOME / "envs" / "storewise.yaml")


def code_digest(*packages):
    """A digest of our own source code, so that a new version of it is a reason to run again."""
    digest = hashlib.blake2b(digest_size=8)
    for package in packages:
        for path in sorted((HOME / "storewise" / package).rglob("*")):
            if path.suffix in {".py", ".html", ".css", ".js"}:
                digest.update(path.read_bytes())
    return digest.hexdigest()


def named(rule_name, job):
    """The resource that names a job of a trial in the queue of PBS, after its wildcards; nothing
    elsewhere: to evaluate it for each job takes time. All jobs of a group must have the same name:
    that of the group, which a profile's `groups` gives to rules."""
    if shutil.which("qsub") is None:
        return {}

    def pbs_name(wildcards):
        group = workflow.group_settings.overwrite_groups.get(rule_name)
        return job_name(group or job.format(**wildcards), ALL_TRIALS[wildcards.trial])

    return {"pbs_name": pbs_name}


def node_of(wildcards):
    return nodes(trial_of(wildcards))[wildcards.node]


def queue_of_node(wildcards):
    """Slurm's partition or PBS's queue; check_plan has refused classes that the profile lacks."""
    place = HOST_CLASSES.get(trial_of(wildcards).node_class)
    return place.partition if place else None


def before_phase(wildcards):
    """What stands for the phase before; that one waited for those before it."""
    trial = trial_of(wildcards)
    names = [phase.name for phase in trial.phases]
    return gathered(trial, names[names.index(wildcards.phase) - 1])


def gathered(trial, phase):
    """The file that stands for all workers of one phase, of which the next phase needs one only."""
    return f"{R}/live/{trial.id}/{phase}.gathered"


def phase_outputs(phase):
    """What a job of a phase leaves in the trial's directory."""
    if not ONE_EACH:
        return {"index": f"{T}/{phase}.{{worker}}.workers"}
    return {
        "result": f"{T}/{phase}.{{worker}}.parquet",
        "hdr": f"{T}/{phase}.{{worker}}.hlog",
    }


def store_output(path):
    return directory(path) if STUDY.keep_data else temp(directory(path))


def hosts_of_job(wildcards):
    """How many hosts a job of several workers asks for; None where it has one worker."""
    members = share(trial_of(wildcards)).members(int(wildcards.worker))
    return len(members) if len(members) > 1 else None
