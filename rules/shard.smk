# Raw files -> manifest -> shards. Raw files are never inputs of a rule: a million files would be
# a million checks of times at each start, and a touched file would plan every trial again.
# `-R manifest` lists the inputs anew; only new and changed files are digested again.
#
# Only the digests are jobs of a cluster: the other rules take seconds, and each would wait in the
# queue for longer.
from storewise.schedulers.hosts import digest_processes


rule manifest:
    input:
        SEARCH_LISTS,
    output:
        files=f"{R}/inputs/files.txt",
    log:
        f"{R}/logs/manifest.log",
    localrule: True
    conda:
        "../envs/storewise.yaml"
    params:
        paths=STUDY.inputs.paths,
        sample=STUDY.inputs.sample.model_dump() if STUDY.inputs.sample else None,
    message:
        "Listing the inputs"
    script:
        "../scripts/manifest.py"


rule digest:
    # One of inputs.jobs parts, whatever the number of files.
    input:
        files=f"{R}/inputs/files.txt",
    output:
        part=f"{R}/inputs/parts/{{part}}.parquet",
    log:
        f"{R}/logs/digest.{{part}}.log",
    conda:
        "../envs/storewise.yaml"
    threads: lambda wildcards: digest_processes(ask=not workflow.local_exec)
    resources:
        mem_mb=2000,
        runtime=720,
        node_class="work",
    params:
        parts=STUDY.inputs.jobs,
        input_format=STUDY.inputs.input_format,
        cache=lambda wildcards: f"{RESULTS}/inputs/cache",
    message:
        "Digesting part {wildcards.part} of the inputs"
    script:
        "../scripts/digest.py"


rule merge:
    input:
        parts=expand(
            f"{R}/inputs/parts/{{part}}.parquet", part=range(STUDY.inputs.jobs)
        ),
    output:
        manifest=f"{R}/inputs/manifest.parquet",
        quarantine=f"{R}/inputs/quarantine.tsv",
    log:
        f"{R}/logs/merge.log",
    localrule: True
    conda:
        "../envs/storewise.yaml"
    params:
        on_bad_input=STUDY.on_bad_input,
    message:
        "Merging the manifest"
    script:
        "../scripts/merge.py"


rule shard:
    input:
        manifest=f"{R}/inputs/manifest.parquet",
    output:
        shards=f"{R}/inputs/shards/{{shards}}.parquet",
    log:
        f"{R}/logs/shard.{{shards}}.log",
    # All lists are made before a trial opens: a trial whose list is there must not overtake those
    # of earlier rounds, nor be measured beside this work.
    priority: 1
    localrule: True
    conda:
        "../envs/storewise.yaml"
    resources:
        opening=1,
    params:
        state=lambda wildcards: f"{RESULTS}/inputs/cache/shards.{wildcards.shards}.parquet",
        seed=STUDY.seed,
    message:
        "Balancing the inputs over {wildcards.shards} shards"
    script:
        "../scripts/shard.py"
