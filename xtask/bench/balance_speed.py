"""Processor time, requests and latency of one proxy thread, beside HAProxy and nginx with one each.

Everybody has the same four servers (one nginx process with four ports), the same 64 kept connections to clients, least connections (the
default of `thermocline balance` is that with one balancer), kept connections to servers, and adds X-Forwarded-For and -Proto. Clients are
wrk with one thread, in a closed loop: as fast as they are answered. A row without proxy shows that they and the servers are not what
is measured. Rounds are interleaved, and each begins with another proxy. Processor time is the proxy's own, from /proc, to the nanosecond;
the ratio is taken round by round, because what else the machine does changes the figures of all.

With --http2 clients speak HTTP/2 in clear to the proxies, and proxies HTTP/1.1 to the servers: h2load with one thread, 16 connections of
8 streams. It tells mean latencies only, so that no percentiles stand there.
"""

import collections
import re
import subprocess

from balance_processes import Programs, cpu_seconds, free_ports, machine, many_files, need, resident_bytes, say, spread

ANSWERS = [("128 B", 128), ("16 KiB", 16 << 10)]
SCALE = {"us": 1, "ms": 1e3, "s": 1e6, "m": 60e6}


def nginx_conf(folder, name, body):
    path = folder / f"{name}.conf"
    path.write_text(f"""
daemon off; master_process off; worker_processes 1; pid {folder}/{name}.pid; error_log {folder}/{name}.err;
events {{ worker_connections 16384; }}
http {{
  access_log off; keepalive_requests 1000000000; keepalive_timeout 3600s; sendfile on; tcp_nopush on; open_file_cache max=16;
  client_body_temp_path {folder}/{name}-t1; proxy_temp_path {folder}/{name}-t2; fastcgi_temp_path {folder}/{name}-t3;
  uwsgi_temp_path {folder}/{name}-t4; scgi_temp_path {folder}/{name}-t5;
  {body}
}}
""")
    return ["nginx", "-e", f"{folder}/{name}.err", "-p", str(folder), "-c", str(path)]


def servers(programs, ports, cores):
    root = programs.folder / "www"
    root.mkdir()
    for _, size in ANSWERS:
        (root / str(size)).write_bytes(b"0123456789abcdef" * (size // 16))
    listens = " ".join(f"listen 127.0.0.1:{port} backlog=4096;" for port in ports)
    command = nginx_conf(programs.folder, "servers", f"server {{ {listens} root {root}; }}")
    return programs.start(command, "servers", ports[0], cores)


def haproxy(programs, port, ports, cores, each="", protocol=""):
    path = programs.folder / "haproxy.cfg"
    path.write_text(f"""
global
  nbthread 1
  no strict-limits
  maxconn 16384
defaults
  mode http
  timeout connect 2s
  timeout client 75s
  timeout server 60s
  timeout queue 30s
  timeout http-keep-alive 75s
  option http-keep-alive
  option forwardfor
frontend in
  bind 127.0.0.1:{port}{protocol}
  http-request set-header X-Forwarded-Proto http
  default_backend out
backend out
  balance leastconn
  http-reuse always
""" + "".join(f"  server s{p} 127.0.0.1:{p}{each}\n" for p in ports))
    return programs.start(["haproxy", "-db", "-f", str(path)], "haproxy", port, cores)


def nginx(programs, port, ports, cores, protocol=""):
    upstream = " ".join(f"server 127.0.0.1:{p};" for p in ports)
    body = f"""
  upstream out {{ least_conn; {upstream} keepalive 128; keepalive_requests 1000000000; }}
  server {{ listen 127.0.0.1:{port}{protocol} backlog=4096; location / {{ proxy_pass http://out; proxy_http_version 1.1;
    proxy_set_header Connection ""; proxy_set_header Host $http_host;
    proxy_set_header X-Forwarded-For $remote_addr; proxy_set_header X-Forwarded-Proto $scheme; }} }}"""
    return programs.start(nginx_conf(programs.folder, "nginx", body), "nginx", port, cores)


def wrk(port, size, seconds, cores):
    command = ["taskset", "-c", cores, "wrk", "-t1", "-c64", f"-d{seconds}s", "--latency", f"http://127.0.0.1:{port}/{size}"]
    text = subprocess.check_output(command, text=True)

    def latency(share):
        found = re.search(rf"^\s+{share}%\s+([\d.]+)(us|ms|s|m)\s*$", text, re.MULTILINE)
        return float(found[1]) * SCALE[found[2]]

    broken = re.search(r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)", text)
    wrong = re.search(r"Non-2xx or 3xx responses: (\d+)", text)
    return {"requests": int(re.search(r"(\d+) requests in", text)[1]), "rate": float(re.search(r"Requests/sec:\s+([\d.]+)", text)[1]),
            "p50_us": latency(50), "p99_us": latency(99),
            "errors": sum(map(int, broken.groups())) if broken else 0, "not_2xx": int(wrong[1]) if wrong else 0}


def h2load(port, size, seconds, cores):
    command = ["taskset", "-c", cores, "h2load", "-t1", "-c16", "-m8", f"-D{seconds}", f"http://127.0.0.1:{port}/{size}"]
    text = subprocess.check_output(command, text=True)
    done, good = re.search(r"requests: .* (\d+) done, (\d+) succeeded", text).groups()
    errors = sum(map(int, re.search(r"(\d+) errored, (\d+) timeout", text).groups()))
    return {"requests": int(done), "rate": float(re.search(r"([\d.]+) req/s", text)[1]), "p50_us": None, "p99_us": None,
            "errors": errors, "not_2xx": int(done) - int(good)}


def measure(port, process, size, args, clients=wrk):
    before = cpu_seconds(process.pid)
    got = clients(port, size, args.seconds, args.client_cores)
    got["cpu_us"] = (cpu_seconds(process.pid) - before) / max(got["requests"], 1) * 1e6
    got["resident_bytes"] = resident_bytes(process.pid)
    return got


def table(results, args):
    clients = "HTTP/2, 16 connections of 8 streams" if args.http2 else "64 connections"
    text = (f"One proxy thread, {clients}, 4 servers, {args.rounds} interleaved rounds of {args.seconds} s; medians [range]; {machine()}\n\n"
            "| answer | proxy | CPU a request, µs | beside the better rival | k requests/s | p50, ms | p99, ms | memory, MiB |\n"
            "|---|---|---:|---:|---:|---:|---:|---:|\n")
    for answer, size in ANSWERS:
        rivals = {name: runs for (name, at), runs in results.items() if at == size and name in ("HAProxy", "nginx")}
        for (name, at), runs in results.items():
            if at != size:
                continue
            cpu, low, high = spread([run["cpu_us"] for run in runs])
            rate, rate_low, rate_high = spread([run["rate"] / 1e3 for run in runs])
            latencies = "– | –"
            if runs[0]["p50_us"] is not None:
                p50 = spread([run["p50_us"] / 1e3 for run in runs])[0]
                p99, p99_low, p99_high = spread([run["p99_us"] / 1e3 for run in runs])
                latencies = f"{p50:.2f} | {p99:.1f} [{p99_low:.1f}, {p99_high:.1f}]"
            ratio = "–"
            if name not in ("none", *rivals) and rivals:
                # Round by round: what disturbs a round disturbs all of it.
                ratios = [run["cpu_us"] / min(rival[i]["cpu_us"] for rival in rivals.values()) for i, run in enumerate(runs)]
                ratio = "{:.2f} [{:.2f}, {:.2f}]".format(*spread(ratios))
            memory = spread([run["resident_bytes"] / 2**20 for run in runs])[0]
            text += (f"| {answer} | {name} | {cpu:.1f} [{low:.1f}, {high:.1f}] | {ratio} | {rate:.1f} [{rate_low:.1f}, {rate_high:.1f}] "
                     f"| {latencies} | {memory:.0f} |\n")
    wrong = sum(run["errors"] + run["not_2xx"] for runs in results.values() for run in runs)
    return text + f"\nErrors and answers other than 200: {wrong}\n"


def run(args, folder):
    need("haproxy", "nginx", "wrk", "taskset", *["h2load"] * args.http2)
    many_files()
    results = collections.OrderedDict()
    with Programs(folder) as programs:
        ours, theirs, third, *ports = free_ports(7)
        direct = servers(programs, ports, args.client_cores)
        proxies = [("thermocline", ours, programs.balancer(args.binary, "ours", ours, ports, args.top, cores=args.proxy_cores)),
                   ("HAProxy", theirs, haproxy(programs, theirs, ports, args.proxy_cores, protocol=" proto h2" * args.http2)),
                   ("nginx", third, nginx(programs, third, ports, args.proxy_cores, " http2" * args.http2))]
        clients = h2load if args.http2 else wrk
        for _, size in ANSWERS:
            for _, port, _ in proxies:
                clients(port, size, 1, args.client_cores)
        for index in range(args.rounds):
            for answer, size in ANSWERS:
                first = index % len(proxies)
                for name, port, process in proxies[first:] + proxies[:first] + [("none", ports[0], direct)][:index < 3]:
                    got = measure(port, process, size, args, wrk if name == "none" else clients)
                    results.setdefault((name, size), []).append(got)
                    say(f"round {index + 1}: {answer}: {name}: {got['cpu_us']:.1f} us, {got['rate'] / 1e3:.1f} k/s")
    order = {"thermocline": 0, "HAProxy": 1, "nginx": 2, "none": 3}
    results = dict(sorted(results.items(), key=lambda item: (item[0][1], order[item[0][0]])))
    rows = [{"proxy": name, "answer_bytes": size, "rounds": runs} for (name, size), runs in results.items()]
    return table(results, args), rows
