# The tested versions, by their hashes.   docker build -t rtm .
#   docker run --rm -v "$PWD:/work" -w /work rtm rtm demo              # in a clone of the repository
#   docker run --rm --gpus all -v "$PWD:/work" -w /work rtm rtm doctor --gpu cifar10_imle_rtm
FROM python:3.11-slim-bookworm
# git: receipts name the revision; a compiler: `compile: true`
RUN apt-get update && apt-get install -y --no-install-recommends gcc git libc6-dev make && rm -rf /var/lib/apt/lists/*
WORKDIR /rtm
COPY requirements.lock requirements.gpu.lock ./
RUN pip install --no-cache-dir --require-hashes --requirement requirements.lock
# the search of RS-IMLE on a GPU; it also works without one
RUN pip uninstall --yes faiss-cpu && pip install --no-cache-dir --require-hashes --requirement requirements.gpu.lock
COPY pyproject.toml README.md LICENSE ./
COPY rtm rtm
RUN pip install --no-cache-dir --no-deps --no-build-isolation .
# a clone that is mounted belongs to another user
RUN git config --system --add safe.directory "*"
CMD ["rtm", "--help"]
