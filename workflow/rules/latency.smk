# Written from rtm/stages/latency.py by rtm/pipeline/rules.py; change the stage, not this file.


# Time the generator and count its parameters (App. G).
rule latency:
    input:
        plan.inputs(
            "latency",
            train="{root}checkpoints/{experiment}/seed{seed}.safetensors",
        ),
    output:
        "{root}results/{experiment}/latency.json",
    log:
        "{root}logs/latency/{experiment}.log",
    group: plan.group("latency")
    threads: plan.all_threads("latency")
    resources:
        **plan.resources("latency"),
        measuring=1,
    shell:
        "rtm make '{wildcards.root}latency/{wildcards.experiment}' > {log:q} 2>&1"
