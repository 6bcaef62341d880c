# The study, its trials and where things are. Nothing here writes a file.
import hashlib
import os

from snakemake.exceptions import WorkflowError

try:
    from storewise.study.load import find_study, load_study
    from storewise.errors import StorewiseError
    from storewise.study.host_classes import parse_classes, text_of
    from storewise.publish.results import study_files
    from storewise.study.references import find_reference, reference_texts
    from storewise.study.trial import node_jobs
    from storewise.workloads.registry import workload as workload_named
except ImportError as error:
    raise WorkflowError(
        f"Storewise is not installed for the Python that runs Snakemake ({error}); "
        "run `make env` and then `.venv/bin/snakemake`, or activate .venv"
    )

# Of the jobs' programs, wherever they run: names of input files are UTF-8, whatever the locale.
os.environ.update(PYTHONUTF8="1")

unknown = sorted(set(config) - {"study", "scale", "many"})
if unknown:
    raise WorkflowError(
        f"--config {' '.join(unknown)}: not known; --config takes study=NAME|PATH, scale=NAME and "
        "many=true. Everything else stands in the study's file."
    )
# Snakemake makes a number of `study=2024`.
STUDY_NAME = str(config.get("study", "demo"))
# A word, or a truth value where it is written as Python's.
MANY = str(config.get("many", False)).lower()
if MANY not in ("true", "false"):
    raise WorkflowError(f"--config many={config['many']}: is either true or false")
try:
    STUDY = load_study(
        STUDY_NAME,
        scale=str(config["scale"]) if "scale" in config else None,
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


wildcard_constraints:
    trial="|".join(ALL_TRIALS),
    phase=r"[a-z][a-z0-9_]*",
    worker=r"\d+",
    node=r"[a-z]+\d+",
    part=r"\d+",
    shards=r"\d+(of[0-9.e-]+)?",


def trial_of(wildcards):
    return ALL_TRIALS[wildcards.trial]


def phase_results(trial, phase):
    """The result parts of all workers of one phase."""
    return [f"{R}/trials/{trial.id}/{phase}.{k}.parquet" for k in range(trial.workers)]


def stores(trial):
    """The store directories that a trial's write workers make."""
    return [f"{R}/trials/{trial.id}/store.{k}" for k in range(trial.workers)]


def shards_of(wildcards):
    """The list of a trial's shards, where its workload reads inputs."""
    if not workload_named(STUDY.workload).reads_inputs:
        return []
    return [f"{R}/inputs/shards/{trial_of(wildcards).shard_list}.parquet"]


def written(trial):
    """The lists of files that a trial's write workers stored."""
    return [f"{R}/trials/{trial.id}/written.{k}.parquet" for k in range(trial.workers)]


def nodes(trial):
    """The nodes of a trial's cluster that are jobs of their own, by name."""
    return {spec.name: spec for spec in node_jobs(trial)}


def cluster(trial):
    """The formed cluster of a trial with servers."""
    return [f"{R}/live/{trial.id}/cluster.json"] if nodes(trial) else []


def cluster_of(wildcards):
    return cluster(trial_of(wildcards))


def measured_parts(trial):
    """Results of all workers of all phases, and of the verification."""
    parts = [
        part for phase in trial.phases for part in phase_results(trial, phase.name)
    ]
    return [*parts, f"{R}/trials/{trial.id}/verify.parquet"]


def final_outputs(trial):
    """What a complete trial leaves."""
    parts = [f"{R}/trials/{trial.id}/node.{name}.parquet" for name in nodes(trial)]
    if parts:
        parts.append(f"{R}/trials/{trial.id}/session.parquet")
    return [*measured_parts(trial), *parts]


def store_output(path):
    return directory(path) if STUDY.keep_data else temp(directory(path))


def before_phase(wildcards):
    """Results of all phases before, of all workers."""
    trial = trial_of(wildcards)
    names = [phase.name for phase in trial.phases]
    earlier = names[: names.index(wildcards.phase)]
    return [part for name in earlier for part in phase_results(trial, name)]


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


def engine_environment(wildcards):
    """The conda environment with an engine's servers, where there is one."""
    folder = Path(workflow.basedir) / "envs"
    special = folder / f"{trial_of(wildcards).engine}.yaml"
    return str(special if special.exists() else folder / "storewise.yaml")


def trial_param(wildcards):
    return trial_of(wildcards).model_dump(mode="json")


def code_digest(*packages):
    """A digest of our own source code, so that a new version of it is a reason to run again."""
    digest = hashlib.blake2b(digest_size=8)
    for package in packages:
        for path in sorted((Path(workflow.basedir) / "storewise" / package).rglob("*")):
            if path.suffix in {".py", ".html", ".css", ".js"}:
                digest.update(path.read_bytes())
    return digest.hexdigest()
