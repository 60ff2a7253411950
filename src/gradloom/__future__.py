"""Settings by which modules replace their parameters in another way when they are converted or loaded."""

from gradloom.nn.modules._conversion import (
    get_overwrite_module_params_on_conversion as get_overwrite_module_params_on_conversion,
    get_swap_module_params_on_conversion as get_swap_module_params_on_conversion,
    set_overwrite_module_params_on_conversion as set_overwrite_module_params_on_conversion,
    set_swap_module_params_on_conversion as set_swap_module_params_on_conversion,
)
