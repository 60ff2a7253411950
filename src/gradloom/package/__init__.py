"""Archives of code, resources and pickled objects with their tensors: PyTorch's torch.package, in its format.

    with gradloom.package.PackageExporter("model.pt") as exporter:
        exporter.intern("my_models.**")
        exporter.extern("numpy.**")
        exporter.save_pickle("model", "model.pkl", model)

    model = gradloom.package.PackageImporter("model.pt").load_pickle("model", "model.pkl")

Loading a package runs the code in it: import only packages that you trust.

Note [Packages]
The archive is an uncompressed zip file with all members under one folder: sources (`my_models/net.py`), resources
(`model/model.pkl`), and in `.data` the version of the format, the names of the modules that the process must provide
(`extern_modules`), and the bytes of each storage (`0.storage`). Pickles name torch's classes and functions as files of
`gradloom.save` do, so that each library reads the other's archives.
"""

from . import analyze as analyze
from .glob_group import Directory, GlobGroup
from .importer import Importer, ObjMismatchError, ObjNotFoundError, OrderedImporter, is_from_package, sys_importer
from .package_exporter import EmptyMatchError, PackageExporter, PackagingError
from .package_importer import PackageImporter

__all__ = [
    "Directory",
    "EmptyMatchError",
    "GlobGroup",
    "Importer",
    "ObjMismatchError",
    "ObjNotFoundError",
    "OrderedImporter",
    "PackageExporter",
    "PackageImporter",
    "PackagingError",
    "is_from_package",
    "sys_importer",
]
