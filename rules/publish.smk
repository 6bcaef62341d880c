# The results on S3, at the end of a run of a study that says so. `snakemake publish` publishes what
# is there: it has no inputs, so that nothing is measured for it.
from storewise.publish.results import study_files


# Where Snakemake was started there are network and credentials; hosts of a queue may have neither.
rule publish:
    log:
        f"{R}/logs/publish.log",
    localrule: True
    conda:
        "../envs/storewise.yaml"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=720,
        opening=1,
    params:
        results=lambda wildcards: RESULTS,
        publish=STUDY.publish.model_dump(mode="json") if STUDY.publish else None,
        # The study's own file and what it extends, as they were written.
        written=lambda wildcards: list(map(str, study_files(STUDY_FILE, HOME))),
    message:
        f"Publishing {R}"
    script:
        "../scripts/publish.py"


use rule publish as published with:
    input:
        REPORT,
    output:
        place=f"{R}/published.json",
    log:
        f"{R}/logs/publish.log",
    localrule: True
