# Written from rtm/stages/table.py by rtm/pipeline/rules.py; change the stage, not this file.


localrules:
    table,


# Render a table as LaTeX, CSV and Markdown, and print it.
rule table:
    input:
        plan.inputs(
            "table",
            summary="{root}results/{experiment}/metrics.json",
            evaluate="{root}results/{experiment}/{protocol}/seed{seed}.json",
            latency="{root}results/{experiment}/latency.json",
        ),
    output:
        "{root}reports/{table}.tex",
        "{root}reports/{table}.csv",
        "{root}reports/{table}.md",
        "{root}reports/{table}.macros.tex",
        "{root}reports/{table}.lineage.json",
    log:
        "{root}logs/table/{table}.log",
    shell:
        "rtm make '{wildcards.root}table/{wildcards.table}' > {log:q} 2>&1"
