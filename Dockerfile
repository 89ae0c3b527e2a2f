# docker buildx build --platform linux/amd64,linux/arm64 -t toolyard .
# Every dependency has wheels for both, so nothing is compiled. `make image-steps` carries the steps out without a builder.
ARG PYTHON=3.13

FROM python:${PYTHON}-slim AS build
WORKDIR /src
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src ./src
RUN python -m venv --without-pip /opt/toolyard
RUN python -m pip --python /opt/toolyard/bin/python install --no-cache-dir --no-compile -c constraints.txt '.[serve,postgres,mcp,http2]'

FROM python:${PYTHON}-slim
COPY --from=build /opt/toolyard /opt/toolyard
# A folder that any user may write to, should the cluster choose another one.
RUN mkdir -p /data /etc/toolyard && chmod 1777 /data
ENV PATH=/opt/toolyard/bin:/usr/local/bin:/usr/bin:/bin \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    HOME=/data \
    TOOLYARD_CONFIG=/etc/toolyard/yard.yaml \
    TOOL_REGISTRY_HOST=0.0.0.0 \
    TOOL_REGISTRY_PORT=8000
WORKDIR /data
USER 10001:10001
VOLUME /data
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
    CMD ["python", "-c", "import os, urllib.request as r; r.urlopen(f'http://127.0.0.1:{os.environ[\"TOOL_REGISTRY_PORT\"]}/readyz', timeout=4)"]
ENTRYPOINT ["toolyard"]
CMD ["serve"]
