# Written from rtm/stages/evaluate.py by rtm/pipeline/rules.py; change the stage, not this file.


# Measure a checkpoint by a protocol: draw images, at every depth of the sweep, and compare them with real ones.
rule evaluate:
    input:
        plan.inputs(
            "evaluate",
            train="{root}checkpoints/{experiment}/seed{seed}.safetensors",
            reference="{root}features/{dataset}/{protocol}.safetensors",
            network="{root}weights/{network}.safetensors",
        ),
    output:
        "{root}results/{experiment}/{protocol}/seed{seed}.json",
    log:
        "{root}logs/evaluate/{experiment}/{protocol}/seed{seed}.log",
    group: "measure_{root}{experiment}_seed{seed}"
    threads: plan.threads("evaluate")
    resources:
        **plan.resources("evaluate"),
        measuring=1,
    shell:
        "rtm make '{wildcards.root}evaluate/{wildcards.experiment}/{wildcards.protocol}/seed{wildcards.seed}' > {log:q} 2>&1"
