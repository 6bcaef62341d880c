# Tables, figures and the page, in one job: each is made once. For the targets `analysis` and
# `report` stored results are source files: nothing here has an edge to a measuring rule then,
# whatever changed in code, config, times or inputs. What changed is a warning in the report.

from storewise.figures.texts import texts


rule analyse:
    input:
        measured,
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
    conda:
        "../envs/storewise.yaml"
    # Processes that read; a large study takes a minute with two.
    threads: 2
    resources:
        mem_mb=4000,
        runtime=60,
        node_class="work",
    params:
        results=lambda wildcards: R,
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
