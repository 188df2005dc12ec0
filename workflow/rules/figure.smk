# Written from rtm/stages/figure.py by rtm/pipeline/rules.py; change the stage, not this file.


localrules:
    figure,


# Draw a figure as PDF and PNG.
rule figure:
    input:
        plan.inputs(
            "figure",
            gallery="{root}galleries/{experiment}/seed{seed}.npz",
            train="{root}results/{experiment}/training/seed{seed}.csv",
            summary="{root}results/{experiment}/metrics.json",
            evaluate="{root}results/{experiment}/{protocol}/seed{seed}.json",
            latency="{root}results/{experiment}/latency.json",
        ),
    output:
        "{root}reports/figures/{figure}.pdf",
        "{root}reports/figures/{figure}.png",
    log:
        "{root}logs/figure/{figure}.log",
    shell:
        "rtm make '{wildcards.root}figure/{wildcards.figure}' > {log:q} 2>&1"
