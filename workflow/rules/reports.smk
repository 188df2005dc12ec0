# Tables, figures and the page with all of them, made only from files.
from rtm.pipeline.graph import FIGURE_SUFFIXES, TABLE_SUFFIXES


rule table:
    input:
        unpack(plan.needs("table")),
    output:
        files=expand("{{root}}reports/{{table}}{suffix}", suffix=TABLE_SUFFIXES),
    log:
        "{root}logs/table/{table}.log",
    params:
        scale=plan.scale("table"),
    shell:
        "rtm table {wildcards.table:q} --scale {params.scale:q} > {log:q} 2>&1"


rule figure:
    input:
        unpack(plan.needs("figure")),
    output:
        files=expand("{{root}}reports/figures/{{figure}}{suffix}", suffix=FIGURE_SUFFIXES),
    log:
        "{root}logs/figure/{figure}.log",
    params:
        scale=plan.scale("figure"),
    shell:
        "rtm figure {wildcards.figure:q} --scale {params.scale:q} > {log:q} 2>&1"


rule report:
    input:
        unpack(plan.needs("report")),
    output:
        page="{root}reports/index.html",
    log:
        "{root}logs/report/index.log",
    params:
        scale=plan.scale("report"),
    shell:
        "rtm report --scale {params.scale:q} > {log:q} 2>&1"
