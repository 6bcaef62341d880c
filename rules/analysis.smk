# Tables, figures and the page. For the targets `analysis` and `report` stored results are source
# files: nothing here has an edge to a measuring rule then, whatever changed in code, config, times
# or inputs. What changed is a warning in the report.


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
        code=code_digest(
            *("analysis", "figures", "metrics", "study", "engines", "workloads")
        ),
    message:
        f"Analysing {R}"
    script:
        "../scripts/analyse.py"


rule report:
    input:
        analysed,
    output:
        page=report(REPORT, caption="../report/page.rst", category="Report"),
        summary=f"{R}/summary.csv",
    log:
        f"{R}/logs/report.log",
    conda:
        "../envs/storewise.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=30,
        node_class="work",
    params:
        results=lambda wildcards: R,
        code=code_digest("report"),
    message:
        "Writing {output.page}"
    script:
        "../scripts/report.py"
