# Training. Its state is in runs/, which is not an output: Snakemake deletes the outputs of failed jobs, but a stopped
# training resumes from its state. `update` keeps the old checkpoint until the new one is complete. `exec` is needed
# because a shell in between would end at the TERM signal, at which a training must save its state.


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
        gpus=plan.fewer("train"),
    threads: plan.threads("train")
    resources:
        nodes=1,
        **plan.compute("train"),
    shell:
        "exec rtm train {wildcards.experiment:q} --seed {wildcards.seed:q} --scale {params.scale:q} {params.gpus}"
        " > {log:q} 2>&1"
