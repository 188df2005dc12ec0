# Written from rtm/stages/train.py by rtm/pipeline/rules.py; change the stage, not this file.


# Train one seed of an experiment; the same command resumes it.
rule train:
    input:
        plan.inputs(
            "train",
            dataset="{root}data/{dataset}/images.npy",
            network="{root}weights/{network}.safetensors",
            reference="{root}features/{dataset}/{protocol}.safetensors",
        ),
    output:
        update("{root}checkpoints/{experiment}/seed{seed}.safetensors"),
        update("{root}results/{experiment}/training/seed{seed}.csv"),
    log:
        "{root}logs/train/{experiment}/seed{seed}.log",
    params:
        gpus=plan.fewer("train"),
    threads: plan.threads("train")
    resources:
        **plan.resources("train"),
        nodes=1,
    shell:
        "exec rtm make '{wildcards.root}train/{wildcards.experiment}/seed{wildcards.seed}' {params.gpus} > {log:q} 2>&1"
