# The command line, and workers.
#
#   docker build -t mqredis .
#   docker run --rm -e MQREDIS_URL=redis://redis:6379/0 mqredis queue list
#
# A worker of your own is an image on top of this one:
#
#   FROM mqredis
#   COPY app.py .
#   CMD ["worker", "app:worker", "--health-file", "worker.health"]
#   HEALTHCHECK CMD ["mqredis", "health", "--consumer", "worker.health"]

FROM python:3.13-slim-bookworm AS build
WORKDIR /src
COPY . .
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.13-slim-bookworm
ENV PYTHONUNBUFFERED=1
COPY --from=build /wheels /wheels
RUN pip install --no-cache-dir "$(echo /wheels/*.whl)[cli,sealing,worker]" \
    && rm -r /wheels \
    && useradd --create-home --uid 10001 mqredis
USER 10001
WORKDIR /home/mqredis
# The program is process 1 and gets SIGTERM itself: a worker ends what it has begun and gives the rest back.
ENTRYPOINT ["mqredis"]
CMD ["--help"]
