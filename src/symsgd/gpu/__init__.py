"""Training on a GPU: the same steps as on the CPU, on thousands of lanes. See docs/gpu.md.

``train(device="cuda")`` makes a :class:`~symsgd.gpu.training.Training` in place of the native one. All of it is written
against a :class:`~symsgd.gpu.machine.Machine`: CUDA by CuPy (:mod:`symsgd.gpu.cuda`), or NumPy
(:mod:`symsgd.gpu.host`), which needs no GPU and is what the kernels are compared with.
"""
