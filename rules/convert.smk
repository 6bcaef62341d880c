# The inputs of the study as a data set (docs/dataset.md): `snakemake convert`. Nothing is measured.
#
# Each job converts its share into the same directory, under a prefix of its own. The directory is no
# output of a rule: Snakemake would remove it before a job that adds to it.
rule begin_data_set:
    input:
        files=f"{R}/inputs/files.txt",
    output:
        begun=f"{R}/inputs/converted/begun.json",
    log:
        f"{R}/logs/convert.begin.log",
    localrule: True
    conda:
        "../envs/storewise.yaml"
    params:
        place=lambda wildcards: f"{RESULTS}/dataset",
        study_fields=STUDY.study_fields,
        input_format=STUDY.inputs.input_format,
    message:
        "Beginning the data set"
    script:
        "../scripts/convert_begin.py"


rule convert_part:
    # One of inputs.jobs parts, whatever the number of files.
    input:
        files=f"{R}/inputs/files.txt",
        begun=f"{R}/inputs/converted/begun.json",
    output:
        part=f"{R}/inputs/converted/{{part}}.json",
    log:
        f"{R}/logs/convert.{{part}}.log",
    conda:
        "../envs/storewise.yaml"
    threads: lambda wildcards: digest_processes(ask=not workflow.local_exec)
    resources:
        mem_mb=4000,
        runtime=720,
        node_class="work",
    params:
        place=lambda wildcards: f"{RESULTS}/dataset",
        parts=STUDY.inputs.jobs,
        on_bad_input=STUDY.on_bad_input,
    message:
        "Converting part {wildcards.part} of the inputs"
    script:
        "../scripts/convert_part.py"


rule finish_data_set:
    input:
        files=f"{R}/inputs/files.txt",
        parts=expand(
            f"{R}/inputs/converted/{{part}}.json", part=range(STUDY.inputs.jobs)
        ),
    output:
        summary=f"{R}/dataset/summary.json",
    log:
        f"{R}/logs/convert.finish.log",
    localrule: True
    conda:
        "../envs/storewise.yaml"
    params:
        place=lambda wildcards: f"{RESULTS}/dataset",
    message:
        "Merging small files of the data set"
    script:
        "../scripts/convert_finish.py"


rule convert:
    input:
        f"{R}/dataset/summary.json",
    message:
        f"{R}/dataset is ready"
