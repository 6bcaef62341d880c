# Tables, figures and the page, in one job: each is made once.
#
# `snakemake analysis` (or `report`) makes them anew from the results that are there: it has no
# inputs, so that nothing is ever measured for it, whatever changed in code, config, times or inputs.
# What changed is a warning in the report.
from storewise.figures.texts import texts

# Jobs that take seconds, where the results are; `shard` and `open_session` are such, too.
workflow.register_resource("opening", 1)


rule analysis:
    log:
        f"{R}/logs/analyse.log",
    # Before `publish`, where both are asked for.
    priority: 1
    conda:
        "../envs/storewise.yaml"
    # Processes that read; a large study takes a minute with two.
    threads: 2
    resources:
        mem_mb=4000,
        runtime=60,
        node_class="work",
        opening=1,
    params:
        results=lambda wildcards: RESULTS,
        study=STUDY.model_dump(mode="json"),
        failed=sorted(set(ALL_TRIALS) - set(TRIALS)),
        left_out=LEFT_OUT,
        references=REFERENCES,
        captions={name: told["caption"] for name, told in texts().items()},
        code=code_digest(
            *("analysis", "figures", "report"),
            *("metrics", "study", "engines", "workloads"),
        ),
    message:
        f"Analysing {R}"
    script:
        "../scripts/analyse.py"


use rule analysis as analyse with:
    input:
        [part for trial in TRIALS.values() for part in last_outputs(trial)],
    output:
        tables=directory(f"{R}/analysis"),
        figures=report(
            directory(f"{R}/figures"),
            patterns=["{name}.svg"],
            caption="../report/figures.rst",
            category="Figures",
        ),
        page=report(REPORT, caption="../report/page.rst", category="Report"),
        summary=f"{R}/summary.csv",
    log:
        f"{R}/logs/analyse.log",


use rule analysis as report with:
    log:
        f"{R}/logs/analyse.log",
