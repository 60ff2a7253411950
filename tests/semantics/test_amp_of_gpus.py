"""Programs that would use a GPU if there were one: they ask, are told that there is none, and run on the CPU."""

import warnings

import pytest


@pytest.mark.build_of_cpus
def test_there_is_no_gpu(torch):
    assert not torch.cuda.is_available()
    assert torch.cuda.device_count() == torch.cuda.memory_allocated() == torch.cuda.max_memory_allocated() == 0
    assert not torch.cuda.is_initialized() and not torch.cuda.is_bf16_supported()
    torch.cuda.manual_seed(0)
    torch.cuda.manual_seed_all(0)
    torch.cuda.empty_cache()
    assert torch.cuda.get_rng_state_all() == []
    for call in (torch.cuda.current_device, torch.cuda.synchronize, torch.cuda.get_device_name):
        with pytest.raises(AssertionError, match="Torch not compiled with CUDA enabled"):
            call()


def test_a_program_for_mixed_precision_on_a_gpu_runs_without_it(torch):
    net = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scaler = torch.cuda.amp.GradScaler(enabled=torch.cuda.is_available())
        with torch.cuda.amp.autocast():
            loss = net(torch.ones(1, 2)).sum()
    assert loss.dtype is torch.float32
    before = net.weight.tolist()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    assert net.weight.tolist() != before


def test_the_names_of_old_warn(torch):
    with (
        pytest.warns(FutureWarning, match=r"torch.amp.autocast\('cuda', args...\)"),
        pytest.warns(UserWarning, match="CUDA is not available"),
    ):
        torch.cuda.amp.autocast()
    with (
        pytest.warns(FutureWarning, match=r"torch.amp.GradScaler\('cuda', args...\)"),
        pytest.warns(UserWarning, match="CUDA is not available"),
    ):
        assert not torch.cuda.amp.GradScaler().is_enabled()
    with pytest.warns(FutureWarning, match="device_type='cuda'"):
        forward = torch.cuda.amp.custom_fwd(cast_inputs=torch.float32)
    assert callable(forward(lambda ctx: None))
    with pytest.warns(FutureWarning, match="device_type='cuda'"):
        torch.cuda.amp.custom_bwd(lambda ctx: None)
