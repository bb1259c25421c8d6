# The image of a node or a coordinator. `make dist` makes the wheel first: make dist && docker build --tag leasehold .
FROM debian:13-slim

RUN apt-get update \
 && apt-get install --yes --no-install-recommends python3 python3-venv \
 && rm -rf /var/lib/apt/lists/*
COPY tools/image dist/leasehold-*.whl /tmp/leasehold/
# Nobody may write to /opt later: what is not compiled here is compiled at each start. Some packages bring files for other
# versions of Python, which can't be.
RUN sh /tmp/leasehold/image /tmp/leasehold/leasehold-*.whl /opt/leasehold \
 && { /opt/leasehold/bin/python -m compileall -q -j 0 /opt/leasehold/lib > /dev/null || true; } \
 && rm -rf /tmp/leasehold \
 && useradd --system --uid 7400 --no-create-home leasehold \
 && install --directory --owner leasehold --mode 0700 /var/lib/leasehold

ENV PATH=/opt/leasehold/bin:$PATH \
    LEASEHOLD_NODE_DIR=/var/lib/leasehold \
    LEASEHOLD_COORDINATOR_DIR=/var/lib/leasehold
VOLUME /var/lib/leasehold
USER leasehold
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=10s --start-period=60s CMD ["leasehold", "health", "/var/lib/leasehold"]
ENTRYPOINT ["leasehold"]
CMD ["--help"]
