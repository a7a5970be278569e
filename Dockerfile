# docker build --build-arg VERSION=v1.2.3 --build-arg COMMIT=abc1234 -t skep .
#
# packaging/check.sh runs the commands of the build stage and what they make without docker.
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=dev
ARG COMMIT=unknown
RUN make build VERSION="$VERSION" COMMIT="$COMMIT"
RUN mkdir -p /out/usr/bin /out/usr/share/licenses/skep /out/etc/ssl/certs /out/var/lib/skep
RUN cp bin/skep /out/usr/bin/ && cp LICENSE /out/usr/share/licenses/skep/
RUN cp /etc/ssl/certs/ca-certificates.crt /out/etc/ssl/certs/
RUN chown 65532:65532 /out/var/lib/skep && chmod 0750 /out/var/lib/skep

FROM scratch
COPY --from=build /out/ /
USER 65532:65532
ENV SKEP_DATA_DIR=/var/lib/skep
# Inside a container the loopback is for nobody; what is published is decided outside.
ENV QUEEN_BIND_ADDR=0.0.0.0
EXPOSE 6632
VOLUME /var/lib/skep
HEALTHCHECK --interval=10s --timeout=6s --start-period=60s CMD ["/usr/bin/skep", "health"]
ENTRYPOINT ["/usr/bin/skep"]
CMD ["serve"]
