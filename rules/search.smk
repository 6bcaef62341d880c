# From FASTA to SSEARCH outputs, for users who have only sequences. A fixed number of jobs shares
# the searches; each lists its outputs, so that their number never becomes a number of jobs.
SEARCH = STUDY.inputs.search
SEARCH_LISTS = (
    [f"{R}/search/{part}.list" for part in range(SEARCH.jobs)] if SEARCH else []
)

if SEARCH:

    rule search:
        input:
            # Absolute: a prefix of this workflow as a module is not theirs.
            queries=[*map(os.path.abspath, SEARCH.queries)],
            libraries=[*map(os.path.abspath, SEARCH.libraries)],
        output:
            files=f"{R}/search/{{part}}.list",
        log:
            f"{R}/logs/search.{{part}}.log",
        conda:
            "../envs/search.yaml"
        threads: 1
        resources:
            mem_mb=2000,
            runtime=2880,
            node_class="work",
        params:
            search=SEARCH.model_dump(mode="json"),
            outdir=lambda wildcards: f"{RESULTS}/search/outputs",
        message:
            "Searching, job {wildcards.part}"
        script:
            "../scripts/search.py"
