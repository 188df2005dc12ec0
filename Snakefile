# From data to LaTeX, at four scales: paper (here), demo (demo/), desk (desk/) and smoke (smoke/).
#
#   data/<dataset>/images.npy             prepared images                          workflow/rules/data.smk
#   weights/<network>.safetensors         frozen networks
#   features/<dataset>/<protocol>         features of the training set
#   checkpoints/<experiment>/seed<n>      trained weights                          workflow/rules/train.smk
#   samples/<experiment>/seed<n>/         images to measure, deleted afterwards    workflow/rules/evaluate.smk
#   galleries/<experiment>/seed<n>.npz    images to look at
#   results/<experiment>/
#     <protocol>/seed<n>.json             metrics
#     latency.json                        cost of an image
#     metrics.json                        mean and deviation over the seeds
#   reports/<table>.tex                   tables and figures                       workflow/rules/reports.smk
#   reports/index.html                    the page with everything
#   lineage/<stage>/<name>.json           receipts: what each file was made from
#
# The receipts (rtm/lineage/receipts.py) decide which jobs run, never time stamps.

import sys

from rtm.pipeline.snakemake import Plan, one_sentence
from rtm.pipeline.targets import check_targets

with one_sentence():
    plan = Plan(workflow, ancient, config)
    check_targets(plan.graph, sys.argv[1:])


# an image with this project installed; used only with `--software-deployment-method apptainer`
container: config.get("container", "rtm.sif")


wildcard_constraints:
    **plan.wildcards(),


localrules:
    all,
    demo,
    desk,
    smoke,
    doctor,
    dataset,
    network,
    summary,
    table,
    figure,
    report,


onstart:
    plan.announce()


rule all:
    input:
        plan.reports("paper"),


rule demo:
    input:
        plan.reports("demo"),


rule desk:
    input:
        plan.reports("desk"),


rule smoke:
    input:
        plan.reports("smoke"),


include: "workflow/rules/doctor.smk"
include: "workflow/rules/data.smk"
include: "workflow/rules/train.smk"
include: "workflow/rules/evaluate.smk"
include: "workflow/rules/reports.smk"

