# An image of the tools for the CPU: docker build -f packaging/docker/cpu.Dockerfile -t genesis .
FROM debian:12 AS build
COPY . /src
WORKDIR /src
RUN apt-get update && GENESIS_SETUP="-Dcuda=disabled -Dtests=false" ./dev package /package

FROM debian:12-slim
COPY --from=build /package/*.deb /tmp/
RUN apt-get update && apt-get install -y --no-install-recommends curl /tmp/*.deb && rm -rf /tmp/*.deb /var/lib/apt/lists/* && \
    useradd --create-home genesis
USER genesis
WORKDIR /home/genesis
EXPOSE 8080
HEALTHCHECK --start-period=60s CMD curl -fs http://localhost:8080/health || exit 1
ENTRYPOINT ["genesis-run"]
