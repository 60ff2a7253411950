"""What operators do on the meta device: shapes, dtypes and strides without data. See Note [Meta tensors] and
docs/meta.md.

In: intercepted calls with tensors of the meta device, or a factory's `device="meta"`. Out: tensors of the meta device.
Importing `handler` registers it; `gradloom.binding` does so when the device is first named.

    tensor      the classes of tensors that have no data
    arrays      arrays that stand for those without data: views of memory that does not exist, and small arrays
    handler     a call: devices, factories, writes; what is left goes to `runs`
    runs        the results of operators that compute
    rules       functions that find the results of single operators, which `shape:` of their entries names
"""
