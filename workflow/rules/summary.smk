# Written from rtm/stages/summary.py by rtm/pipeline/rules.py; change the stage, not this file.


localrules:
    summary,


# Write the mean and standard deviation of an experiment's metrics over its seeds, for `dvc metrics`.
rule summary:
    input:
        plan.inputs(
            "summary",
            evaluate="{root}results/{experiment}/{protocol}/seed{seed}.json",
            latency="{root}results/{experiment}/latency.json",
        ),
    output:
        "{root}results/{experiment}/metrics.json",
        "{root}results/{experiment}/sweep.csv",
    log:
        "{root}logs/summary/{experiment}.log",
    shell:
        "rtm make '{wildcards.root}summary/{wildcards.experiment}' > {log:q} 2>&1"
