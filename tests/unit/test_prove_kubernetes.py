"""Manifests: built-in kinds and each custom kind, a good one and what must be refused."""

import json

import jsonschema
import pytest
import yaml

from bookpress.prove import kubernetes

POD = "{containers: [{name: train, image: trainer:1, resources: {limits: {nvidia.com/gpu: 8}}}]}"
GOOD = {
    "Job": """
apiVersion: batch/v1
kind: Job
metadata: {name: train}
spec:
  completions: 2
  template:
    spec:
      restartPolicy: Never
      containers: [{name: train, image: "trainer:1"}]
""",
    "JobSet": f"""
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {{name: train, labels: {{kueue.x-k8s.io/queue-name: team}}}}
spec:
  failurePolicy: {{maxRestarts: 3}}
  replicatedJobs:
  - name: workers
    replicas: 1
    template:
      spec:
        parallelism: 4
        completions: 4
        backoffLimit: 0
        template:
          metadata: {{labels: {{app: train}}}}
          spec: {POD}
""",
    "ClusterQueue": """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: team}
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [cpu, nvidia.com/gpu]
    flavors:
    - name: h100
      resources:
      - {name: cpu, nominalQuota: 9}
      - {name: nvidia.com/gpu, nominalQuota: "16"}
""",
    "LocalQueue": """
apiVersion: kueue.x-k8s.io/v1beta1
kind: LocalQueue
metadata: {name: team, namespace: ml}
spec: {clusterQueue: team}
""",
    "ResourceFlavor": """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: h100}
spec:
  nodeLabels: {gpu: h100}
  topologyName: racks
""",
    "Topology": """
apiVersion: kueue.x-k8s.io/v1beta2
kind: Topology
metadata: {name: racks}
spec:
  levels: [{nodeLabel: cloud.provider.com/rack}, {nodeLabel: kubernetes.io/hostname}]
""",
    "Workload": f"""
apiVersion: kueue.x-k8s.io/v1beta2
kind: Workload
metadata: {{name: w}}
spec:
  queueName: team
  podSets:
  - name: main
    count: 4
    template: {{spec: {POD}}}
""",
    "TrainJob": """
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: train}
spec:
  runtimeRef: {name: torch-distributed}
  trainer:
    numNodes: 2
    image: trainer:1
    resourcesPerNode: {limits: {nvidia.com/gpu: 8}}
""",
    "TrainingRuntime": f"""
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainingRuntime
metadata: {{name: torch}}
spec:
  mlPolicy: {{numNodes: 1, torch: {{}}}}
  template:
    spec:
      replicatedJobs:
      - name: node
        template: {{spec: {{template: {{spec: {POD}}}}}}}
""",
}
GOOD["ClusterTrainingRuntime"] = GOOD["TrainingRuntime"].replace("kind: Tr", "kind: ClusterTr")

# (kind, what is changed, into what, row of the finding, words in its message)
BAD = [
    ("Job", "completions: 2", "completion: 2", 5, "completion"),
    ("JobSet", "replicas: 1", "replica: 1", 8, "unknown field 'replica' (did you mean 'replicas'?)"),
    ("JobSet", "maxRestarts: 3", "maxRestarts: many", 5, "not of type 'integer'"),
    ("JobSet", "containers:", "container:", 16, "containers"),
    ("JobSet", "- name: workers\n    replicas", "- replicas", 7, "'name' is a required property"),
    ("JobSet", "metadata: {name: train, labels", "metadata: {names: train, labels", 3, "unknown field 'names'"),
    ("ClusterQueue", "flavors:", "flavours:", 7, "flavors"),
    ("ClusterQueue", "nominalQuota: 9", "nominalQuota: [9]", 11, "is not of type"),
    ("LocalQueue", "clusterQueue: team", "clusterQueue: 'Not a name'", 4, "does not match"),
    ("ResourceFlavor", "nodeLabels", "nodeLabel", 5, "unknown field 'nodeLabel'"),
    ("Topology", "levels", "level", 4, "level"),
    ("Workload", "count: 4", "count: '4'", 8, "not of type 'integer'"),
    ("TrainJob", "numNodes: 2", "nodes: 2", 7, "unknown field 'nodes'"),
    ("TrainJob", "runtimeRef: {name: torch-distributed}", "suspend: true", 4, "'runtimeRef' is a required"),
    ("TrainingRuntime", "torch: {}", "torch: {numProcPerNode: 8}", 5, "unknown field 'numProcPerNode'"),
    ("ClusterTrainingRuntime", "numNodes: 1", "numNodes: 1.5", 5, "not of type 'integer'"),
    ("JobSet", "v1alpha2", "v1", 2, "no schema for jobset.x-k8s.io/v1 JobSet"),
    ("JobSet", "kind: JobSet", "kind: JobSets", 2, "no schema"),
    ("Job", "batch/v1", "batch.example.com/v1", 2, "no schema"),
]


def findings(text):
    return list(kubernetes.check(yaml.safe_load(text), text))


@pytest.mark.parametrize("kind", GOOD)
def test_good(kind):
    assert findings(GOOD[kind]) == []


@pytest.mark.parametrize(("kind", "old", "new", "row", "words"), BAD)
def test_refused(kind, old, new, row, words):
    assert old in GOOD[kind]
    found = findings(GOOD[kind].replace(old, new, 1))
    assert found, "nothing found"
    assert any(words in message for _, message in found), found
    assert row in [r for r, _ in found], found


def test_every_schema_is_one_and_says_where_it_is_from():
    files = list(kubernetes.CUSTOM.rglob("*/*/*.json"))
    assert len(files) >= 20
    for file in files:
        schema = json.loads(file.read_text())
        jsonschema.Draft202012Validator.check_schema(schema)
        assert "Apache-2.0" in schema["$comment"]
        assert len(schema["$comment"].split("(")[1]) > 40
        assert schema["properties"]["kind"] == {"const": file.stem}
        assert schema["properties"]["apiVersion"]["const"] == "/".join(file.parts[-3:-1])
