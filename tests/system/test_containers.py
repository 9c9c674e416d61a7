"""What can be said of images, the job for Kubernetes and the Spack environments without Docker, a cluster or Spack: files
that they name are there, they install what ./run does, their scripts run, fields and packages are known ones.

docs/containers.md and docs/spack.md say which documents the lists here were taken from.
"""

import pathlib
import re
import subprocess
import tempfile
import unittest

from harness import STRICT, TOP

# MPIJobSpec, RunPolicy and ReplicaSpec of kubeflow.org/v2beta1; of Kubernetes' own objects what is used here.
FIELDS = {
    "": {"apiVersion", "kind", "metadata", "spec"},
    "spec": {"slotsPerWorker", "runPolicy", "mpiReplicaSpecs", "sshAuthMountPath", "launcherCreationPolicy",
             "mpiImplementation", "runLauncherAsWorker"},
    "spec.runPolicy": {"cleanPodPolicy", "ttlSecondsAfterFinished", "activeDeadlineSeconds", "backoffLimit",
                       "schedulingPolicy", "suspend", "managedBy"},
    "spec.mpiReplicaSpecs": {"Launcher", "Worker"},
    "replica": {"replicas", "template", "restartPolicy"},
    "template": {"metadata", "spec"},
    "pod": {"affinity", "containers", "securityContext", "volumes", "nodeSelector", "tolerations"},
    "container": {"name", "image", "command", "args", "securityContext", "readinessProbe", "resources", "volumeMounts",
                  "env"},
}  # fmt: skip
# name -> variants that its package has, of those used here
PACKAGES = {
    "cmake": set(), "ninja": set(), "openmpi": {"schedulers", "legacylaunchers"}, "hdf5": {"mpi", "cxx", "fortran"},
    "onednn": {"cpu_runtime", "gpu_runtime"}, "boost": {"program_options", "cxxstd"}, "fmt": set(), "xxhash": set(),
    "nlohmann-json": set(), "highway": {"shared"}, "cuda": set(), "nccl": {"cuda_arch"},
}  # fmt: skip
SECTIONS = {"arguments", "setup", "files", "post", "environment", "runscript", "startscript", "test", "labels", "help"}


def text(name):
    return (TOP / name).read_text(encoding="utf-8")


def array(script, name):
    """The words of a shell array."""
    return re.search(rf"(?m)^{name}=\(([^)]*)\)", text(script))[1].split()


class Containers(unittest.TestCase):
    def parsed(self, name):
        try:
            import yaml
        except ImportError:
            (self.fail if STRICT else self.skipTest)("python3-yaml is not installed")
        return yaml.safe_load(text(name))

    def test_images_install_what_run_does(self):
        self.assertEqual(array("docker/packages.sh", "BUILD_PACKAGES"), array("run", "BUILD_PACKAGES"))

    def test_both_images_are_built_alike(self):
        commands = [
            re.findall(r"(?:cmake|install) -[^\\\n]*", text(name)) for name in ("docker/Dockerfile", "apptainer/gpt_mpi.def")
        ]
        self.assertEqual(len(commands[0]), 3)
        self.assertEqual(*[[command.strip() for command in some] for some in commands])
        for name in ("docker/Dockerfile", "apptainer/gpt_mpi.def"):
            self.assertIn("debian:12", text(name))

    def test_files_that_images_copy_are_there(self):
        for words in re.findall(r"(?m)^COPY (?!--from)(.*)$", text("docker/Dockerfile")):
            for source in words.split()[:-1]:
                self.assertTrue((TOP / source).exists(), source)
        for script in re.findall(r"(?m)^RUN (docker/\S+)", text("docker/Dockerfile")):
            self.assertTrue((TOP / script).stat().st_mode & 0o111, script)

    def test_the_definition_has_known_sections(self):
        sections = re.findall(r"(?m)^%(\w+)", text("apptainer/gpt_mpi.def"))
        self.assertLessEqual(set(sections), SECTIONS)
        stages = text("apptainer/gpt_mpi.def").split("Bootstrap: docker\n")[1:]
        self.assertEqual([re.search(r"(?m)^Stage: (\w+)$", stage)[1] for stage in stages], ["build", "final"])
        for stage in stages:
            for body in re.findall(r"(?ms)^%(?:post|environment|runscript|test)\n(.*?)(?=^%|\Z)", stage):
                done = subprocess.run(["sh", "-n"], input=body, text=True, capture_output=True, check=False)
                self.assertEqual(done.returncode, 0, done.stderr)

    def test_the_ssh_server_is_set_up_for_a_user(self):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([TOP / "docker/ssh.sh", folder], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            server = (pathlib.Path(folder) / "home/mpiuser/.sshd_config").read_text(encoding="utf-8")
            client = (pathlib.Path(folder) / "etc/ssh/ssh_config.d/gpt_mpi.conf").read_text(encoding="utf-8")
        for line in ("Port 2222", "HostKey /home/mpiuser/.ssh/id_rsa", "StrictModes no", "PasswordAuthentication no"):
            self.assertIn(line + "\n", server)
        self.assertIn("  Port 2222\n", client)

    def test_the_job_has_known_fields(self):
        job = self.parsed("kubernetes/mpijob.yaml")
        self.assertEqual((job["apiVersion"], job["kind"]), ("kubeflow.org/v2beta1", "MPIJob"))
        spec = job["spec"]
        replicas = spec["mpiReplicaSpecs"]
        places = {"": job, "spec": spec, "spec.runPolicy": spec["runPolicy"], "spec.mpiReplicaSpecs": replicas}
        for place, found in places.items():
            self.assertLessEqual(set(found), FIELDS[place], place)
        self.assertIn(spec["launcherCreationPolicy"], ("AtStartup", "WaitForWorkersReady"))
        self.assertIn(spec["mpiImplementation"], ("OpenMPI", "Intel", "MPICH"))
        self.assertEqual(spec["sshAuthMountPath"], "/home/mpiuser/.ssh")
        for replica in replicas.values():
            self.assertLessEqual(set(replica), FIELDS["replica"])
            self.assertLessEqual(set(replica["template"]), FIELDS["template"])
            pod = replica["template"]["spec"]
            self.assertLessEqual(set(pod), FIELDS["pod"])
            volumes = {volume["name"] for volume in pod["volumes"]}
            for container in pod["containers"]:
                self.assertLessEqual(set(container), FIELDS["container"])
                self.assertLessEqual({mount["name"] for mount in container["volumeMounts"]}, volumes)
        probe = replicas["Worker"]["template"]["spec"]["containers"][0]["readinessProbe"]
        self.assertEqual(f"PORT=${{PORT:-{probe['tcpSocket']['port']}}}" in text("docker/ssh.sh"), True)

    def test_the_script_of_the_job_runs_preflight_and_then_the_run(self):
        """With a launcher that only says what it is asked for, and with one that refuses."""
        job = self.parsed("kubernetes/mpijob.yaml")
        launcher = job["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"][0]
        with tempfile.TemporaryDirectory() as folder:
            mpirun = pathlib.Path(folder) / "mpirun"
            for code, lines in ((0, 2), (14, 1)):
                mpirun.write_text(f'#!/bin/sh\necho "$@"\nexit {code}\n', encoding="utf-8")
                mpirun.chmod(0o755)
                done = subprocess.run(
                    [*launcher["command"], *launcher["args"]],
                    env={"PATH": f"{folder}:/usr/bin:/bin"},
                    capture_output=True,
                    text=True,
                    check=False,
                )
                self.assertEqual(done.returncode, code, done.stderr)
                said = done.stdout.splitlines()
                self.assertEqual(len(said), lines)
                self.assertEqual([("--preflight" in line) for line in said], [True, False][:lines])
                if lines == 2:
                    self.assertEqual(said[0].replace("--preflight ", ""), said[1])

    def test_environments_name_known_packages_and_variants(self):
        for name, more in (("cpu", set()), ("cuda", {"cuda", "nccl"})):
            with self.subTest(name):
                environment = self.parsed(f"spack/{name}/spack.yaml")["spack"]
                self.assertLessEqual(set(environment), {"specs", "packages", "concretizer", "view"})
                found = set()
                for spec in environment["specs"]:
                    package, *rest = spec.split()
                    package = package.split("@")[0]
                    found.add(package)
                    variants = {re.split("=", word.lstrip("+~"))[0] for word in rest}
                    self.assertLessEqual(variants, PACKAGES[package], spec)
                self.assertEqual(found, (set(PACKAGES) - {"cuda", "nccl"}) | more)


if __name__ == "__main__":
    unittest.main(verbosity=2)
