# Written from rtm/stages/network.py by rtm/pipeline/rules.py; change the stage, not this file.


localrules:
    network,


# Fetch the weights of a frozen network (the metrics, the perceptual loss).
rule network:
    input:
        plan.inputs(
            "network",
            dataset="{root}data/{dataset}/images.npy",
        ),
    output:
        "{root}weights/{network}.safetensors",
    log:
        "{root}logs/network/{network}.log",
    shell:
        "rtm make '{wildcards.root}network/{wildcards.network}' > {log:q} 2>&1"
