"""Event files that SummaryWriter writes, read back by tensorboard. Run by `make conformance`, which installs it."""

from __future__ import annotations

import sys

import pytest

import gradloom as gl
from gradloom.utils.tensorboard import SummaryWriter


def events(folder):
    loader = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator", reason="make conformance installs tensorboard"
    )
    found = loader.EventAccumulator(str(folder), size_guidance=dict.fromkeys(("tensors", "images", "audio"), 0))
    found.Reload()
    return found


@pytest.fixture
def folder(tmp_path):
    pytest.importorskip("tensorboard", reason="make conformance installs tensorboard")
    return tmp_path / "run"


def test_curves_histograms_and_texts(folder):
    with SummaryWriter(folder) as writer:
        for step in range(3):
            writer.add_scalar("loss", gl.tensor(step / 2), step, walltime=10.0 + step)
        writer.add_scalar("new", 2, 1, new_style=True)
        writer.add_scalars("both", {"a": 1.0, "b": gl.tensor(2.0)}, 4)
        writer.add_histogram("weights", gl.tensor([1.0, -2.0, 2.0]), 5)
        writer.add_text("note", "hello", 6)
        writer.add_tensor("values", gl.tensor([[1.0, 2.0]]), 7)
        writer.add_pr_curve("curve", gl.tensor([0, 1, 1]), gl.tensor([0.1, 0.9, 0.4]), 8, num_thresholds=3)
        tensors = [gl.tensor([float(i), 0.0]) for i in range(6)]
        writer.add_pr_curve_raw("raw", *tensors, 9, num_thresholds=2)
    found = events(folder)
    assert list(found.Tensors("raw")[0].tensor_proto.float_val) == [0, 0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0]
    assert [(e.step, e.value, e.wall_time) for e in found.Scalars("loss")] == [(0, 0, 10), (1, 0.5, 11), (2, 1, 12)]
    assert [e.value for e in events(folder / "both_b").Scalars("both")] == [2.0]
    texts = found.Tensors("note/text_summary")
    assert texts[0].tensor_proto.string_val == [b"hello"] and texts[0].step == 6
    assert list(found.Tensors("values")[0].tensor_proto.float_val) == [1.0, 2.0]
    rows = list(found.Tensors("curve")[0].tensor_proto.float_val)
    assert rows[:6] == [2.0, 1.0, 0.0, 1.0, 0.0, 0.0]  # true and false positives at 0, 0.5 and 1
    histogram = found.Histograms("weights")[0].histogram_value
    assert (histogram.min, histogram.max, histogram.num, histogram.sum, histogram.sum_squares) == (-2, 2, 3, 1, 9)
    assert sum(histogram.bucket) == 3


def plugin(found, tag):
    return found.SummaryMetadata(tag).plugin_data.content


def test_settings_of_runs_and_their_metrics(folder):
    with SummaryWriter(folder) as writer:
        settings = {"lr": 0.1, "name": "a", "flag": True, "size": gl.tensor([2.0]), "none": None}
        domains = {"lr": [0.1, 0.2], "name": ["a", "b"]}
        writer.add_hparams(settings, {"loss": gl.tensor(1.5)}, domains, run_name="first", global_step=3)
        with pytest.raises(ValueError, match="value of x should be one of"):
            writer.add_hparams({"x": object()}, {})
        with pytest.raises(TypeError, match="metric_dict should be a dictionary"):
            writer.add_hparams({}, [1])
    found = events(folder / "first")
    assert [(e.step, e.value) for e in found.Scalars("loss")] == [(3, 1.5)]
    protos = pytest.importorskip("tensorboard.plugins.hparams.plugin_data_pb2")
    read = protos.HParamsPluginData.FromString
    start = read(plugin(found, "_hparams_/session_start_info")).session_start_info.hparams
    assert {name: start[name].number_value or start[name].string_value for name in start} == {
        "lr": 0.1, "name": "a", "flag": 1.0, "size": 2.0,
    }  # fmt: skip
    experiment = read(plugin(found, "_hparams_/experiment")).experiment
    assert [metric.name.tag for metric in experiment.metric_infos] == ["loss"]
    allowed = {info.name: info.domain_discrete.values for info in experiment.hparam_infos}
    read_back = {name: [v.number_value or v.string_value for v in values] for name, values in allowed.items()}
    assert read_back == {
        "lr": [0.1, 0.2], "name": ["a", "b"], "flag": [], "size": [],
    }  # fmt: skip


def test_points_of_the_projector(folder):
    with SummaryWriter(folder) as writer:
        pictures = gl.linspace(0, 1, 36).view(3, 3, 2, 2)
        writer.add_embedding(gl.arange(6.0).view(3, 2), ["a", "b", "c"], pictures, 1)
        writer.add_embedding(gl.ones(1, 2), [["x", 1]], metadata_header=["n", "v"], tag="a/b")
        with pytest.raises(AssertionError, match="#labels should equal"):
            writer.add_embedding(gl.ones(2, 2), ["one"])
    first, second = folder / "00001/default", folder / "00000/a%2Fb"
    assert (first / "tensors.tsv").read_text() == "0.0\t1.0\n2.0\t3.0\n4.0\t5.0\n"
    assert (first / "metadata.tsv").read_text() == "a\nb\nc\n" and (
        second / "metadata.tsv"
    ).read_text() == "n\tv\nx\t1\n"
    image = pytest.importorskip("PIL.Image").open(first / "sprite.png")
    assert image.size == (4, 4) and image.getpixel((0, 0)) == (0, 29, 58)  # elements 0, 4 and 8 of 35, times 255
    config = (folder / "projector_config.pbtxt").read_text()
    protos = pytest.importorskip("tensorboard.plugins.projector.projector_config_pb2")
    text_format = pytest.importorskip("google.protobuf.text_format")
    read = text_format.Parse(config, protos.ProjectorConfig()).embeddings
    assert [one.tensor_name for one in read] == ["default:00001", "a/b:00000"]
    assert (folder / read[0].sprite.image_path).exists() and read[1].metadata_path == "00000/a%2Fb/metadata.tsv"


def test_meshes_and_arranged_curves(folder):
    with SummaryWriter(folder) as writer:
        corners, faces = gl.arange(12.0).view(1, 4, 3), gl.tensor([[[0, 1, 2], [1, 2, 3]]])
        writer.add_mesh("shape", corners, faces=faces, config_dict={"camera": 1}, global_step=2)
        writer.add_custom_scalars({"group": {"both": ["Multiline", ["a", "b"]], "m": ["Margin", ["v", "low", "high"]]}})
        with pytest.raises(AssertionError, match="Expected 3 tags"):
            writer.add_custom_scalars_marginchart(["a"])
    found = events(folder)
    array = pytest.importorskip("tensorboard.util.tensor_util").make_ndarray
    (vertices,), (numbers,) = found.Tensors("shape_VERTEX"), found.Tensors("shape_FACE")
    assert vertices.step == 2 and array(vertices.tensor_proto).tolist() == corners.tolist()
    assert array(numbers.tensor_proto).tolist() == faces.tolist()
    metadata = pytest.importorskip("tensorboard.plugins.mesh.metadata").parse_plugin_metadata(
        plugin(found, "shape_FACE")
    )
    assert metadata.json_config == '{"camera": 1}' and list(metadata.shape) == [1, 2, 3]
    layout = pytest.importorskip("tensorboard.plugins.custom_scalar.layout_pb2").Layout
    (category,) = layout.FromString(found.Tensors("custom_scalars__config__")[0].tensor_proto.string_val[0]).category
    assert category.title == "group" and list(category.chart[0].multiline.tag) == ["a", "b"]
    assert category.chart[1].margin.series[0].upper == "high"


def test_videos_and_boxes(folder):
    pytest.importorskip("PIL", reason="make conformance installs pillow")
    import io

    from PIL import Image

    with SummaryWriter(folder) as writer:
        writer.add_video("film", gl.linspace(0, 1, 3 * 5 * 3 * 4 * 6).view(3, 5, 3, 4, 6), fps=10)
        writer.add_image_with_boxes("boxes", gl.zeros(3, 20, 30), gl.tensor([[2.0, 3.0, 12.0, 13.0]]), rescale=2)
    found = events(folder)
    film = Image.open(io.BytesIO(found.Images("film")[0].encoded_image_string))
    assert (film.format, film.n_frames, film.size) == ("GIF", 5, (12, 8))  # four places in two rows
    boxes = Image.open(io.BytesIO(found.Images("boxes")[0].encoded_image_string))
    assert boxes.size == (60, 40) and boxes.getpixel((24, 20)) == (255, 0, 0) and boxes.getpixel((10, 16)) == (0, 0, 0)


def test_the_graph_of_a_module_has_its_operators_in_the_boxes_of_modules(folder):
    class Net(gl.nn.Module):
        def __init__(self):
            super().__init__()
            self.first = gl.nn.Linear(3, 4)
            self.rest = gl.nn.Sequential(gl.nn.ReLU(), gl.nn.BatchNorm1d(4))

        def forward(self, x):
            return self.rest(self.first(x)) + x.sum()

    model = Net()
    with SummaryWriter(folder) as writer:
        writer.add_graph(model, gl.ones(2, 3))
        with pytest.raises(TypeError, match="add_graph takes a Module"):
            writer.add_graph(lambda x: x, gl.ones(1))
    nodes = {node.name: node for node in events(folder).Graph().node}
    assert nodes["input/input_0"].op == "IO Node" and nodes["Net/Linear[first]/weight"].op == "prim::GetAttr"
    relu = nodes["Net/Sequential[rest]/ReLU[0]/relu"]
    assert relu.op == "aten::relu" and list(relu.input) == ["Net/Linear[first]/addmm"]
    assert [dim.size for dim in relu.attr["_output_shapes"].list.shape[0].dim] == [2, 4]
    assert list(nodes["output/output.1"].input) == ["Net/add"] and set(nodes["Net/add"].input) > {"Net/sum_1"}
    assert all(source in nodes for node in nodes.values() for source in node.input)
    assert model.rest[1].running_mean.tolist() == [0.0] * 4  # as before


def test_a_graph_comes_with_the_metadata_of_a_run(folder, capsys):
    torch = pytest.importorskip("torch")
    from torch.utils.tensorboard import _pytorch_graph as theirs  # tensorboardX calls it

    from gradloom.utils.tensorboard import _pytorch_graph as ours

    definition, run = ours.graph(gl.nn.Linear(3, 4), gl.ones(2, 3), verbose=True)
    expected = theirs.graph(torch.nn.Linear(3, 4), torch.ones(2, 3))
    assert (type(definition), run) == (type(expected[0]), expected[1])
    assert "addmm" in capsys.readouterr().out
    with SummaryWriter(folder) as writer:
        writer.add_graph(gl.nn.Linear(3, 4), (gl.ones(2, 3),))
    assert events(folder).RunMetadata("step1") == run


def test_images_and_sounds(folder):
    with SummaryWriter(folder) as writer:
        writer.add_image("one", gl.zeros(3, 2, 4))
        writer.add_images("grid", gl.full((10, 1, 2, 2), 0.5))
        writer.add_image("rows", gl.zeros(2, 4, 1, dtype=gl.uint8), dataformats="HWC")
        writer.add_audio("sound", gl.zeros(8), sample_rate=100)
    found = events(folder)
    images = [found.Images(tag)[0] for tag in ("one", "grid", "rows")]
    assert [(image.height, image.width) for image in images] == [(2, 4), (4, 16), (2, 4)]
    assert found.Images("one")[0].encoded_image_string.startswith(b"\x89PNG")
    assert found.Audio("sound")[0].length_frames == 8


def test_images_are_decoded_to_the_pixels(folder):
    image = pytest.importorskip("PIL.Image")
    import io

    with SummaryWriter(folder) as writer:
        writer.add_image("one", gl.tensor([[[0.0, 1.0]], [[0.5, 0.0]], [[0.0, 0.25]]]))
    decoded = image.open(io.BytesIO(events(folder).Images("one")[0].encoded_image_string))
    assert list(decoded.getdata()) == [(0, 127, 0), (255, 0, 63)]


def test_graphs_of_onnx_models_are_pytorchs(folder):
    onnx, theirs = pytest.importorskip("onnx"), pytest.importorskip("torch.utils.tensorboard")
    folder.mkdir()
    model = gl.nn.Sequential(gl.nn.Linear(3, 2), gl.nn.Softmax(1))
    gl.onnx.export(model, gl.ones(1, 3), str(folder / "net.onnx"), input_names=["x"])
    assert onnx.load(folder / "net.onnx").graph.input[0].name == "x"
    with SummaryWriter(folder / "ours") as writer:
        writer.add_onnx_graph(folder / "net.onnx")
    with theirs.SummaryWriter(str(folder / "theirs")) as writer:
        writer.add_onnx_graph(str(folder / "net.onnx"))
    ours, expected = events(folder / "ours").Graph(), events(folder / "theirs").Graph()
    assert len(ours.node) >= 4 and "axis" in str(ours) and ours == expected


def test_what_is_not_there_is_named(folder):
    with SummaryWriter(folder) as writer, pytest.raises(AssertionError, match="input_format: CHW"):
        writer.add_image("bad", gl.zeros(2, 2))


def test_the_error_names_the_extra(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    for name in [name for name in sys.modules if name.startswith("tensorboard.")]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=r"pip install 'gradloom\[tensorboard\]'"):
        SummaryWriter(tmp_path)


def test_summaries_of_other_code_go_through_the_file_writer(folder):
    from tensorboard.compat.proto.summary_pb2 import Summary

    from gradloom.utils.tensorboard import FileWriter, RecordWriter
    from gradloom.utils.tensorboard.summary import hparams

    with SummaryWriter(folder) as writer:
        assert isinstance(writer.file_writer, FileWriter) and writer.all_writers == {str(folder): writer.file_writer}
        for summary in hparams({"lr": 0.1}, {"loss": 1.0}):
            writer.file_writer.add_summary(summary)
        summary = Summary(value=[Summary.Value(tag="own", simple_value=2.0)])
        writer._get_file_writer().add_summary(summary, 3, walltime=1.0)
        assert writer.file_writer.get_logdir() == str(folder)
    assert writer.file_writer is None
    writer.add_scalar("later", 1.0, 4)  # to a second file
    writer.close()
    found = events(folder)
    assert [(e.step, e.value, e.wall_time) for e in found.Scalars("own")] == [(3, 2.0, 1.0)]
    assert [e.step for e in found.Scalars("later")] == [4]
    assert RecordWriter.__module__.startswith("tensorboard.")


def test_values_that_are_neither_numbers_nor_arrays_are_not_implemented(folder):
    with SummaryWriter(folder) as writer:
        for write in (writer.add_scalar, writer.add_histogram, writer.add_image):
            with pytest.raises(NotImplementedError, match="numpy array or torch tensor are expected"):
                write("tag", [0.0, 1.0])
        with pytest.raises(AssertionError, match="one element"):
            writer.add_scalar("tag", gl.ones(2))


def test_bfloat16_is_written_as_its_values(folder):
    def half(*values):
        return gl.tensor(values).bfloat16()

    ones = half(1.0).expand(3, 4, 4)
    with SummaryWriter(str(folder)) as writer:
        writer.add_scalar("scalar", half(1.5), 1)
        writer.add_scalar("new", half(1.5)[0], 1, new_style=True)
        writer.add_scalars("scalars", {"x": half(2.5)}, 1)
        writer.add_histogram("histogram", half(1.0, 2.0, 2.0))
        writer.add_image("image", ones)
        writer.add_images("images", ones[None])
        writer.add_pr_curve("curve", half(1.0, 0.0), half(0.75, 0.25))
        writer.add_embedding(half(0.5, 1.0).reshape(1, 2))
        writer.add_hparams({"lr": half(0.5)}, {"loss": half(0.25)}, run_name="run")
        for dtype in (gl.complex64, gl.complex128):
            for new_style in (False, True):
                with pytest.raises(TypeError, match="not 'complex'"):
                    writer.add_scalar("scalar", gl.ones(1, dtype=dtype), new_style=new_style)
            with pytest.raises(TypeError, match="not 'complex'"):
                writer.add_scalars("scalars", {"x": gl.ones((), dtype=dtype)})
    found = events(folder)
    assert [(e.step, e.value) for e in found.Scalars("scalar")] == [(1, 1.5)]
    assert found.Tensors("new")[0].tensor_proto.float_val[0] == 1.5
    assert [e.value for e in events(folder / "scalars_x").Scalars("scalars")] == [2.5]
    assert found.Histograms("histogram")[0].histogram_value.sum == 5
    assert [e.value for e in events(folder / "run").Scalars("loss")] == [0.25]
    assert {(e.width, e.height) for tag in ("image", "images") for e in found.Images(tag)} == {(4, 4)}
    assert list(found.Tensors("curve")[0].tensor_proto.float_val)[:2] == [1.0, 1.0]
    assert next(folder.glob("**/tensors.tsv")).read_text().split() == ["0.5", "1.0"]


KINDS = "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128".split()


@pytest.mark.parametrize("name", KINDS)
def test_tensors_of_every_dtype_are_written(folder, name):
    kind = getattr(gl, name)
    x = gl.tensor([[1.0, 2.0, 0.0], [3.0, 1.0, 2.0]]).to(kind)
    values = x.t() * 1j if kind.is_complex else x.t()
    with SummaryWriter(folder) as writer:
        writer.add_tensor("values", values.conj() if kind.is_complex else values)
        writer.add_tensor("one", x[0, 1])
    make = pytest.importorskip("tensorboard.util.tensor_util").make_ndarray
    found = events(folder)
    protos = [found.Tensors(tag)[0].tensor_proto for tag in ("values", "one")]
    if name != "bfloat16":  # which tensorboard does not decode
        assert make(protos[0]).tolist() == (values.conj().resolve_conj() if kind.is_complex else values).tolist()
        assert make(protos[1]).item() == x[0, 1].item()
    torch = pytest.importorskip("torch", reason="PyTorch, the reference")
    summary = pytest.importorskip("torch.utils.tensorboard.summary")
    given = torch.tensor([[1.0, 2.0, 0.0], [3.0, 1.0, 2.0]]).to(getattr(torch, name))
    theirs = summary.tensor_proto("one", given[0, 1]).value[0].tensor
    if kind.itemsize == 2 and kind.is_floating_point:  # of which PyTorch writes the bits of float32
        assert protos[1].dtype == theirs.dtype and list(protos[1].half_val) == [0x4000]
    elif name != "uint8":  # which PyTorch writes to a field that tensorboard does not read
        assert protos[1] == theirs


@pytest.mark.parametrize("name", ["uint16", "uint32", "uint64", "float8_e4m3fn"])
def test_tensors_that_files_have_no_type_for_are_refused(folder, name):
    with SummaryWriter(folder) as writer, pytest.raises(ValueError, match="values has unsupported tensor dtype torch"):
        writer.add_tensor("values", gl.ones(2).to(getattr(gl, name)))


def test_images_of_int8_are_0_or_1_as_those_of_other_ints():
    from gradloom.utils.tensorboard.summary import pixels

    image = gl.tensor([-100, -1, 0, 1, 2, 127], dtype=gl.int8).view(1, 1, 6).numpy()
    assert pixels(image, "CHW").reshape(-1).tolist() == [0, 0, 0, 255, 255, 255]


def test_settings_are_numbers_or_tensors_with_a_dimension(folder):
    with SummaryWriter(folder) as writer:
        writer.add_hparams({"rate": gl.tensor([0.5])}, {"loss": gl.tensor(1.0)})
        with pytest.raises(IndexError, match="too many indices for array: array is 0-dimensional"):
            writer.add_hparams({"rate": gl.tensor(0.5)}, {"loss": 1.0})


@pytest.mark.parametrize("part", ["vertices", "colors", "faces"])
def test_meshes_of_complex_numbers_are_refused(folder, part):
    parts = {"vertices": gl.ones(1, 3, 3), part: gl.ones(1, 3, 3, dtype=gl.complex64)}
    with SummaryWriter(folder) as writer, pytest.raises(TypeError, match="must be real number, not complex"):
        writer.add_mesh("mesh", **parts)
