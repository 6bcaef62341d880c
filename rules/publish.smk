# The results on S3. As for `analysis` and `report`, stored results are source files for the target
# `publish`: nothing that measures is ever planned for it.


# Where Snakemake was started there are network and credentials; hosts of a queue may have neither.
localrules:
    publish,


rule publish:
    input:
        to_publish,
    output:
        place=f"{R}/published.json",
    log:
        f"{R}/logs/publish.log",
    conda:
        "../envs/storewise.yaml"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=720,
    params:
        results=lambda wildcards: R,
        publish=STUDY.publish.model_dump(mode="json") if STUDY.publish else None,
        # The study's own file and what it extends, as they were written.
        written=lambda wildcards: STUDY_FILES,
    message:
        f"Publishing {R}"
    script:
        "../scripts/publish.py"
