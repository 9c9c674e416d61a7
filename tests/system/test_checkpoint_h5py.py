"""A checkpoint is an HDF5 file that others can read: parameters by name and shape, with the values that were trained."""

import math
import shutil
import subprocess
import unittest

from harness import TINY, SystemTest


def layer_norm(x, weight, bias):
    centered = x - x.mean(-1, keepdims=True)
    variance = (centered**2).mean(-1, keepdims=True)
    return centered / (variance + 1e-5) ** 0.5 * weight + bias


def gpt2_losses(numpy, parameters, heads, inputs, targets):
    """Cross-entropy of every position, by the published GPT-2 (Radford et al. 2019), in double precision."""
    p = {name: value.astype(numpy.float64) for name, value in parameters.items()}

    def get(name):
        return p.get(name, 0.0)

    def linear(x, name):
        return x @ p[name + ".weight"].T + get(name + ".bias")

    def norm(x, name):
        return layer_norm(x, p[name + ".weight"], get(name + ".bias"))

    count, length = inputs.shape
    x = p["wte.weight"][inputs] + p["wpe.weight"][:length]
    width = x.shape[-1]
    mask = numpy.triu(numpy.full((length, length), -numpy.inf), 1)
    for layer in range(TINY["layers"]):
        h = f"h.{layer}."
        qkv = linear(norm(x, h + "ln_1"), h + "attn.c_attn")
        q, k, v = (
            part.reshape(count, length, heads, width // heads).transpose(0, 2, 1, 3)
            for part in numpy.split(qkv, 3, axis=-1)
        )
        scores = q @ k.transpose(0, 1, 3, 2) / math.sqrt(width // heads) + mask
        weights = numpy.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        x = x + linear((weights @ v).transpose(0, 2, 1, 3).reshape(count, length, width), h + "attn.c_proj")
        u = linear(norm(x, h + "ln_2"), h + "mlp.c_fc")
        gelu = 0.5 * u * (1 + numpy.tanh(math.sqrt(2 / math.pi) * (u + 0.044715 * u**3)))
        x = x + linear(gelu, h + "mlp.c_proj")
    logits = norm(x, "ln_f") @ p["wte.weight"].T
    top = logits.max(-1, keepdims=True)
    log_sum = (top + numpy.log(numpy.exp(logits - top).sum(-1, keepdims=True)))[..., 0]
    return log_sum - numpy.take_along_axis(logits, targets[..., None], -1)[..., 0]


class CheckpointAsHdf5(SystemTest):
    def setUp(self):
        self.need_h5py()

    def parameters(self, file):
        import h5py

        found = {}
        with h5py.File(file, "r") as checkpoint:
            names = []
            checkpoint.visit(names.append)
            for name in names:
                item = checkpoint[name]
                if isinstance(item, h5py.Dataset) and name.endswith((".weight", ".bias")):
                    found[name.rsplit("/", 1)[-1]] = item[...]
        return found

    def shapes(self, vocabulary, bias):
        width, context = TINY["width"], TINY["context"]
        vectors = {"ln_f": width}
        matrices = {"wte": (vocabulary, width), "wpe": (context, width)}
        for layer in range(TINY["layers"]):
            h = f"h.{layer}."
            matrices |= {
                h + "attn.c_attn": (3 * width, width),
                h + "attn.c_proj": (width, width),
                h + "mlp.c_fc": (4 * width, width),
                h + "mlp.c_proj": (width, 4 * width),
            }
            vectors |= {h + "ln_1": width, h + "ln_2": width}
        shapes = {name + ".weight": shape for name, shape in matrices.items()}
        shapes |= {name + ".weight": (size,) for name, size in vectors.items()}
        if bias:
            shapes |= {name + ".bias": (size,) for name, size in vectors.items()}
            shapes |= {name + ".bias": shape[:1] for name, shape in matrices.items() if name not in ("wte", "wpe")}
        return shapes

    def validation_tokens(self, data):
        import h5py
        import numpy

        files = sorted(data.glob("val-*.h5"))
        self.assertEqual(len(files), 1)
        with h5py.File(files[0], "r") as shard:
            return shard["tokens"][...].astype(numpy.int64)

    def test_every_parameter_is_there_and_means_what_its_name_says(self):
        """Names, shapes, orientation and values at once: a model written in numpy gets the program's own loss."""
        import h5py
        import numpy

        for bias in (True, False):
            with self.subTest(bias=bias):
                data = self.synth()
                run = self.train(data, self.path(f"bias{bias}"), ranks=3, steps=20, save_every=20, bias=bias)
                file = run.checkpoint(20)
                parameters = self.parameters(file)
                with h5py.File(data / "dataset.h5", "r") as manifest:
                    vocabulary = int(manifest.attrs["vocabulary"])
                shapes = {name: value.shape for name, value in parameters.items()}
                self.assertEqual(shapes, self.shapes(vocabulary, bias))
                self.assertTrue(all(numpy.isfinite(value).all() for value in parameters.values()))

                tokens, context = self.validation_tokens(data), TINY["context"]
                self.assertLess(tokens.max(), vocabulary)
                windows = (len(tokens) - 1) // context
                inputs = tokens[: windows * context].reshape(windows, context)
                targets = tokens[1 : windows * context + 1].reshape(windows, context)
                expected = gpt2_losses(numpy, parameters, TINY["heads"], inputs, targets).mean()
                loss = self.evaluate(data, file, bias=bias)
                self.assertAlmostEqual(loss, expected, delta=1e-5)

    def test_named_views_are_the_flat_state(self):
        import h5py
        import numpy

        run = self.train(self.synth(), self.path("run"), ranks=2, steps=3, save_every=3)
        with h5py.File(run.checkpoint(3), "r") as checkpoint:
            flat = checkpoint["state/params"][...]
            self.assertEqual(checkpoint["state/m"].shape, flat.shape)
            self.assertEqual(checkpoint["state/v"].shape, flat.shape)
        parameters = self.parameters(run.checkpoint(3))
        everything = numpy.concatenate([value.ravel() for value in parameters.values()])
        # Padding is zero: what is left of the flat state are the parameters.
        numpy.testing.assert_array_equal(
            numpy.sort(everything[everything != 0]), numpy.sort(flat[flat != 0])
        )

    def test_the_file_does_not_depend_on_the_ranks(self):
        sizes = {
            self.train(self.synth(), self.path(f"np{ranks}"), ranks=ranks, steps=2, save_every=2)
            .checkpoint(2)
            .stat()
            .st_size
            for ranks in (1, 3, 4)
        }
        self.assertEqual(len(sizes), 1)

    def test_hdf5_tools_read_it(self):
        self.need(shutil.which("h5dump"), "hdf5-tools is not installed")
        run = self.train(self.synth(), self.path("run"), ranks=2, steps=2, save_every=2)
        done = subprocess.run(
            ["h5dump", "-H", str(run.checkpoint(2))], capture_output=True, text=True, check=False
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("h.0.attn.c_attn.weight", done.stdout)


if __name__ == "__main__":
    unittest.main(verbosity=2)
