# Written from rtm/stages/report.py by rtm/pipeline/rules.py; change the stage, not this file.


localrules:
    report,


# Write one page for a browser with all results so far.
rule report:
    input:
        plan.inputs(
            "report",
            table="{root}reports/{table}.tex",
            figure="{root}reports/figures/{figure}.pdf",
        ),
    output:
        "{root}reports/index.html",
    log:
        "{root}logs/report/index.log",
    shell:
        "rtm make '{wildcards.root}report/index' > {log:q} 2>&1"
