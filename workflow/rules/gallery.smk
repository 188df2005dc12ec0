# Written from rtm/stages/gallery.py by rtm/pipeline/rules.py; change the stage, not this file.


# Generate the few images that figures show: samples, interpolations, neighbours of training images.
rule gallery:
    input:
        plan.inputs(
            "gallery",
            train="{root}checkpoints/{experiment}/seed{seed}.safetensors",
            dataset="{root}data/{dataset}/images.npy",
            network="{root}weights/{network}.safetensors",
        ),
    output:
        "{root}galleries/{experiment}/seed{seed}.npz",
    log:
        "{root}logs/gallery/{experiment}/seed{seed}.log",
    group: "measure_{root}{experiment}_seed{seed}"
    threads: plan.threads("gallery")
    resources:
        **plan.resources("gallery"),
        measuring=1,
    shell:
        "rtm make '{wildcards.root}gallery/{wildcards.experiment}/seed{wildcards.seed}' > {log:q} 2>&1"
