# panestream with Python and Java, for a look without installing either:
#     docker build --tag panestream . && docker run --rm panestream
# The target `dev` is the dev container: what `make setup` needs, and no panestream.

FROM python:3.12-slim-bookworm AS java
RUN apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-17-jre-headless procps \
    && rm -rf /var/lib/apt/lists/*

FROM java AS dev
RUN apt-get update \
    && apt-get install --yes --no-install-recommends git make openssh-client \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 1000 --create-home --shell /bin/bash dev
USER 1000

FROM python:3.12-slim-bookworm AS wheel
WORKDIR /build
COPY pyproject.toml README.md LICENSE ./
COPY src ./src
COPY examples ./examples
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM java
COPY --from=wheel /wheels /wheels
# A file, not a name: no index decides which panestream this is.
# hadolint ignore=DL3013
RUN wheel="$(echo /wheels/*.whl)" && pip install --no-cache-dir "${wheel}[spark,cli]" && rm -rf /wheels
COPY examples/hot_items /opt/panestream/hot_items
RUN useradd --uid 1000 --create-home --shell /bin/bash panestream && install --directory --owner panestream /data
ENV PYTHONPATH=/opt/panestream PYTHONDONTWRITEBYTECODE=1 MPLCONFIGDIR=/tmp/matplotlib
USER 1000
WORKDIR /data
CMD ["python", "-m", "hot_items"]
