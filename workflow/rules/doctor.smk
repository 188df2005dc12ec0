# `snakemake --profile slurm doctor`: test a node for two minutes before a submission. Only the printed result is kept.


rule try_node:
    output:
        temp("logs/doctor/{experiment}.txt"),
    log:
        "logs/doctor/{experiment}.log",
    threads: plan.doctor_threads
    resources:
        nodes=1,
        **plan.doctor_resources(),
    shell:
        "rtm doctor --gpu {wildcards.experiment:q} 2>&1 | tee {log:q} > {output:q}"


rule doctor:
    input:
        plan.doctor_targets(),
    log:
        "logs/doctor/doctor.log",
    shell:
        "cat {input:q} | tee {log:q}"
