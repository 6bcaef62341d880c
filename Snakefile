# Storewise: which data store should hold my sequence-search results, on my cluster?
#
#   snakemake                              the default study (config/studies/demo.yaml)
#   snakemake --config study=NAME|PATH     another study
#   snakemake analysis                     only analysis and report, from stored results
#   snakemake report                       only the page
#   snakemake publish                      only the results to S3, where the study says
#   snakemake convert                      only a data set of the study's inputs
#
# There is no `configfile:` on purpose: Snakemake merges a user's --configfile into it, and a
# study is one file that is read whole (docs/decisions/runs.md).
from snakemake.utils import min_version

min_version("9.27")


include: "rules/common.smk"
include: "rules/plan.smk"
include: "rules/run.smk"
include: "rules/slurm.smk"
include: "rules/search.smk"
include: "rules/shard.smk"
include: "rules/convert.smk"
include: "rules/session.smk"
include: "rules/workload.smk"
include: "rules/analysis.smk"
include: "rules/publish.smk"


rule all:
    default_target: True
    input:
        REPORT,
        [final_outputs(trial) for trial in TRIALS.values()],
        [f"{R}/published.json"] if STUDY.publish else [],
    message:
        "{input[0]} is ready"
