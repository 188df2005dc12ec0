# Training. Its state lives in runs/, which is no output: Snakemake deletes outputs of failed jobs, and a training that
# was stopped goes on from there in the next attempt. What an earlier training left stays until the new one is whole:
# `update` keeps Snakemake from deleting it. And `exec`: a shell in between would die of the TERM at which training saves.


rule train:
    input:
        unpack(plan.needs("train")),
    output:
        checkpoint=update("{root}checkpoints/{experiment}/seed{seed}.safetensors"),
        curve=update("{root}results/{experiment}/training/seed{seed}.csv"),
    log:
        "{root}logs/train/{experiment}/seed{seed}.log",
    params:
        scale=plan.scale("train"),
    threads: plan.threads("train")
    resources:
        nodes=1,
        **plan.compute("train"),
    shell:
        "exec rtm train {wildcards.experiment} --seed {wildcards.seed} --scale {params.scale} > {log} 2>&1"
