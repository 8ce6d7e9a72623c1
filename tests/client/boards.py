"""A board as MLflow keeps it, for tests of what is sent there."""

import json
import re
from typing import Any

import httpx

RUNS = 2 + 2 * (1 + 2)
"""The study, its base model's job, and two jobs with two seeds each."""


class Board:
    """What MLflow's REST interface keeps, with its limits."""

    def __init__(self) -> None:
        self.experiments: dict[str, str] = {}
        self.runs: dict[str, dict[str, Any]] = {}
        self.lost = 0
        """Answers to lose before they arrive, after the work was done."""

    def answer(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path.removeprefix("/api/2.0/mlflow/")
        body = json.loads(request.content or b"{}")
        done = getattr(self, f"_{path.replace('/', '_').replace('-', '_')}")(body, request)
        if path == "runs/create" and self.lost:
            self.lost -= 1
            raise httpx.ReadError("cut off", request=request)
        return done if isinstance(done, httpx.Response) else httpx.Response(200, json=done)

    def _experiments_get_by_name(self, _: Any, request: httpx.Request) -> Any:
        name = request.url.params["experiment_name"]
        if name not in self.experiments:
            return httpx.Response(404, json={"error_code": "RESOURCE_DOES_NOT_EXIST"})
        return {"experiment": {"experiment_id": self.experiments[name]}}

    def _experiments_create(self, body: Any, _: httpx.Request) -> Any:
        self.experiments[body["name"]] = str(len(self.experiments))
        return {"experiment_id": self.experiments[body["name"]]}

    def _runs_search(self, body: Any, _: httpx.Request) -> Any:
        first = int(body.get("page_token", 0))
        asked = re.fullmatch(r"tags.`adaptlab.id` LIKE '([\w-]+)%'", body["filter"])
        assert asked is not None
        runs = [
            one for one in self.runs.values() if one["tags"]["adaptlab.id"].startswith(asked[1])
        ]
        found = runs[first : first + 2]
        more = {"next_page_token": str(first + 2)} if first + 2 < len(runs) else {}
        shown = [
            {
                "info": {"run_id": one["id"]},
                "data": {"tags": [{"key": k, "value": v} for k, v in one["tags"].items()]},
            }
            for one in found
        ]
        return {"runs": shown, **more}

    def _runs_create(self, body: Any, _: httpx.Request) -> Any:
        identity = f"run{len(self.runs)}"
        tags = {tag["key"]: tag["value"] for tag in body["tags"]}
        made = {"id": identity, "name": body["run_name"], "tags": tags}
        self.runs[identity] = made | {"params": {}, "metrics": set()}
        return {"run": {"info": {"run_id": identity}}}

    def _runs_log_batch(self, body: Any, _: httpx.Request) -> Any:
        run = self.runs[body["run_id"]]
        assert len(body.get("metrics", ())) <= 1000
        assert len(body.get("params", ())) <= 100
        run["tags"] |= {tag["key"]: tag["value"] for tag in body.get("tags", ())}
        for one in body.get("params", ()):
            assert run["params"].setdefault(one["key"], one["value"]) == one["value"]
        for one in body.get("metrics", ()):
            run["metrics"].add((one["key"], one["step"], one["value"], one["timestamp"]))
        return {}

    def _runs_update(self, body: Any, _: httpx.Request) -> Any:
        self.runs[body["run_id"]]["status"] = body["status"]
        return {}
