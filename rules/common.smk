# The study, its trials and where things are. Nothing here writes a file.
import hashlib
import inspect
import os
import shutil

import snakemake.script
from snakemake.common import overwrite_function_params
from snakemake.exceptions import WorkflowError
from snakemake.resources import Resource

try:
    from storewise.study.load import find_study, load_study
    from storewise.errors import StorewiseError
    from storewise.study.host_classes import parse_classes, text_of
    from storewise.publish.results import study_files
    from storewise.schedulers.hosts import most_processors
    from storewise.session.coordination.private import restrict_umask
    from storewise.study.references import find_reference, reference_texts
    from storewise.study.shares import Share, lost_indexes
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

unknown = sorted(set(config) - {"study", "scale", "many"})
if unknown:
    raise WorkflowError(
        f"--config {' '.join(unknown)}: not known; --config takes study=NAME|PATH, scale=NAME and "
        "many=true. Everything else stands in the study's file."
    )


def word_of(key, default=None):
    """A word after --config as it was written: Snakemake makes numbers of `study=1e3` and of 1_0."""
    for entry in reversed(workflow.config_settings.config_args or []):
        name, _, word = entry.partition("=")
        if name == key:
            return word.strip("'\"")
    return str(config[key]) if key in config else default


STUDY_NAME = word_of("study", "demo")
# A word, or a truth value where it is written as Python's.
MANY = str(config.get("many", False)).lower()
if MANY not in ("true", "false"):
    raise WorkflowError(f"--config many={config['many']}: is either true or false")
try:
    STUDY = load_study(
        STUDY_NAME,
        scale=word_of("scale"),
        root=Path(workflow.basedir),
        many=MANY == "true",
    )
    PHASES = workload_named(STUDY.workload).phases
    # Their texts go with the results, which are analysed without this repository, too.
    REFERENCES = reference_texts(
        find_reference(
            name,
            Path(workflow.basedir),
            find_study(STUDY_NAME, Path(workflow.basedir)).parent,
        )
        for name in STUDY.references
    )
    STUDY_FILES = list(
        map(
            str,
            study_files(
                find_study(STUDY_NAME, Path(workflow.basedir)),
                Path(workflow.basedir),
            ),
        )
    )
except StorewiseError as error:
    raise WorkflowError(str(error))

R = f"results/{STUDY.name}"
REPORT = f"{R}/report.html"
LOAD = next(phase.name for phase in STUDY.phases if PHASES[phase.name].loads)
AFTER_LOAD = [phase.name for phase in STUDY.phases if not PHASES[phase.name].loads]


ALL_TRIALS = {trial.id: trial for trial in STUDY.trials()}


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


wildcard_constraints:
    trial="|".join(ALL_TRIALS),
    phase=r"[a-z][a-z0-9_]*",
    worker=r"\d+",
    node=r"[a-z]+\d+",
    part=r"\d+",
    shards=r"\d+(of[0-9.e-]+)?",


def trial_of(wildcards):
    return ALL_TRIALS[wildcards.trial]


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
    parts = [
        part for phase in trial.phases for part in phase_results(trial, phase.name)
    ]
    return [*parts, *last_outputs(trial)]


def store_output(path):
    return directory(path) if STUDY.keep_data else temp(directory(path))


def gathered(trial, phase):
    """The file that stands for all workers of one phase, of which the next phase needs one only."""
    return f"{R}/live/{trial.id}/{phase}.gathered"


def before_phase(wildcards):
    """What stands for the phase before; that one waited for those before it."""
    trial = trial_of(wildcards)
    names = [phase.name for phase in trial.phases]
    return gathered(trial, names[names.index(wildcards.phase) - 1])


def last_phase(trial):
    return gathered(trial, trial.phases[-1].name)


def run_local(rule_name):
    """Whether the profile wants a rule in the main process."""
    resources = workflow.resource_settings._parsed_overwrite_resources.get(
        rule_name, {}
    )
    return "run_local" in resources and bool(resources["run_local"].value)


def host_classes():
    """Classes of hosts that the profile knows: the resource `node_classes` of rule `node`."""
    resources = workflow.resource_settings._parsed_overwrite_resources.get("node", {})
    try:
        return parse_classes(
            text_of(resources["node_classes"].raw)
            if "node_classes" in resources
            else ""
        )
    except StorewiseError as error:
        raise WorkflowError(str(error))


HOST_CLASSES = host_classes()


def partition_of_node(wildcards):
    """Slurm's partition of a node; check_plan has refused classes that the profile lacks."""
    place = HOST_CLASSES.get(trial_of(wildcards).node_class)
    return place.partition if place else None


def node_of(wildcards):
    return nodes(trial_of(wildcards))[wildcards.node]


def engine_environment(trial):
    """The conda environment with an engine's servers, where there is one."""
    folder = Path(workflow.basedir) / "envs"
    special = folder / f"{trial.engine}.yaml"
    return str(special if special.exists() else folder / "storewise.yaml")


def trial_param(trial):
    return trial.model_dump(mode="json")


def code_digest(*packages):
    """A digest of our own source code, so that a new version of it is a reason to run again."""
    digest = hashlib.blake2b(digest_size=8)
    for package in packages:
        for path in sorted((Path(workflow.basedir) / "storewise" / package).rglob("*")):
            if path.suffix in {".py", ".html", ".css", ".js"}:
                digest.update(path.read_bytes())
    return digest.hexdigest()


T = f"{R}/trials/{{trial}}"
# A job of several workers has an index of their files for its result. Its name has the number of
# its first worker.
ONE_EACH = STUDY.workers_per_job == 1


def phase_outputs(phase):
    """What a job of a phase leaves in the trial's directory."""
    if not ONE_EACH:
        return {"index": f"{T}/{phase}.{{worker}}.workers"}
    return {
        "result": f"{T}/{phase}.{{worker}}.parquet",
        "hdr": f"{T}/{phase}.{{worker}}.hlog",
    }


def hosts_of_job(wildcards):
    """How many hosts a job of several workers asks for; None where it has one worker."""
    members = share(trial_of(wildcards)).members(int(wildcards.worker))
    return len(members) if len(members) > 1 else None


# Resources of jobs with several workers. Slurm's executor wants `mpi` where a job starts processes
# of its own on its hosts.
HOSTS_OF_JOB = (
    {}
    if ONE_EACH
    else {
        "nodes": hosts_of_job,
        "tasks": hosts_of_job,
        "mpi": lambda wildcards: hosts_of_job(wildcards) and "srun",
    }
)


def named(job):
    """The resource that names a job of a trial in the queue of PBS, after its wildcards; nothing
    where there is no PBS: to evaluate it for each job takes time."""
    if shutil.which("qsub") is None:
        return {}
    return {
        "pbs_name": lambda wildcards: job_name(
            job.format(**wildcards), ALL_TRIALS[wildcards.trial]
        )
    }


#: Processes of a digest at most, and the variable that tells a job how many it has asked for.
DIGEST_PROCESSES = 8
DIGEST_VARIABLE = "STOREWISE_DIGEST_PROCESSES"


def digest_threads(wildcards):
    """As many as the largest host of the cluster has, up to 8: more would never start."""
    if DIGEST_VARIABLE not in os.environ:
        known = None if workflow.local_exec else most_processors()
        os.environ[DIGEST_VARIABLE] = str(
            min(DIGEST_PROCESSES, known or DIGEST_PROCESSES)
        )
    return int(os.environ[DIGEST_VARIABLE])
