# An image of the tools for NVIDIA GPUs: docker build -f packaging/docker/cuda.Dockerfile -t genesis-cuda .
# docker run --gpus all needs the NVIDIA Container Toolkit, which brings the driver's libraries.
FROM nvidia/cuda:13.0.1-devel-ubuntu24.04 AS build
COPY . /src
WORKDIR /src
RUN apt-get update && GENESIS_SETUP="-Dcuda=enabled -Dtests=false" ./dev package /package

FROM nvidia/cuda:13.0.1-cudnn-runtime-ubuntu24.04
COPY --from=build /package/*.deb /tmp/
RUN apt-get update && apt-get install -y --no-install-recommends curl /tmp/*.deb && rm -rf /tmp/*.deb /var/lib/apt/lists/* && \
    useradd --create-home genesis
USER genesis
WORKDIR /home/genesis
EXPOSE 8080
HEALTHCHECK --start-period=120s CMD curl -fs http://localhost:8080/health || exit 1
ENTRYPOINT ["genesis-run"]
