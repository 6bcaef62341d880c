# Tables, figures and the page. For the targets `analysis` and `report` stored results are source
# files: nothing here has an edge to a measuring rule then, whatever changed in code, config, times
# or inputs. What changed is a warning in the report.
import hashlib
import time


def code_digest(*packages):
    """A digest of our own source code, so that a new version of it is a reason to run again."""
    digest = hashlib.blake2b(digest_size=8)
    for package in packages:
        for path in sorted((Path(workflow.basedir) / "storewise" / package).rglob("*")):
            if path.suffix in {".py", ".html", ".css", ".js"}:
                digest.update(path.read_bytes())
    return digest.hexdigest()


def asked():
    """A file that is newer than everything: an explicit request always does the work again."""
    if not workflow.is_main_process:
        return []
    # In a directory of its own: Snakemake may have listed the others before.
    path = Path(R) / ".asked" / "now"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{time.time_ns()}\n")
    return [str(path)]


def measured(wildcards):
    if only_analysis():
        return asked()
    return [part for trial in TRIALS.values() for part in final_outputs(trial)]


def analysed(wildcards):
    tables = [f"{R}/analysis", f"{R}/figures"]
    if workflow.is_main_process:
        targets = set(workflow.dag_settings.targets)
        if (
            targets
            and targets <= {"report", REPORT}
            and all(map(os.path.exists, tables))
        ):
            return asked()
    return tables


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
    threads: 1
    resources:
        mem_mb=4000,
        runtime=60,
    params:
        results=R,
        study=STUDY.model_dump(mode="json"),
        failed=sorted(set(ALL_TRIALS) - set(TRIALS)),
        code=code_digest("analysis", "figures", "metrics"),
    message:
        "Analysing {params.results}"
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
    threads: 1
    resources:
        mem_mb=2000,
        runtime=30,
    params:
        results=R,
        code=code_digest("report"),
    message:
        "Writing {output.page}"
    script:
        "../scripts/report.py"
