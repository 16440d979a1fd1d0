import datetime, os, sys, time
import torch, torch.distributed as dist

case, dry = sys.argv[1], sys.argv[2] == "dry"
rank = int(os.environ["RANK"])
device = torch.device("cpu") if dry else torch.device("cuda", rank)
limit = datetime.timedelta(seconds=int(os.environ["HANG_LIMIT"]))
if not dry:
    torch.cuda.set_device(device)
dist.init_process_group("gloo" if dry else "nccl", timeout=limit, **({} if dry else {"device_id": device}))
grad, loss = torch.ones(1 << 20, device=device), torch.ones(1, device=device)


def settle():
    if not dry:
        torch.cuda.synchronize()


def reduce_gradients():
    dist.all_reduce(grad if case != "sizes" or rank == 0 or step < 3 else grad[: 1 << 19])


def reduce_loss():
    dist.all_reduce(loss)


def share_schedule():
    dist.broadcast(loss, src=0)


tensor_group, data_group = dist.new_group([0, 1], timeout=limit), dist.new_group([0, 1], timeout=limit)
for one in (tensor_group, data_group):
    dist.all_reduce(loss, group=one)
for step in range(4):
    planted = step == 3 and rank == 1
    if case == "skip" and planted:
        reduce_loss()
    elif case == "order" and planted:
        share_schedule()
        reduce_gradients()
    elif case == "types" and planted:
        dist.all_reduce(grad.bfloat16())
    elif case == "late" and planted:
        time.sleep(600)
    elif case == "groups" and step == 3:
        dist.all_reduce(grad, group=data_group if rank else tensor_group)
    else:
        reduce_gradients()
        share_schedule() if case == "order" else reduce_loss()
    if step < 3:
        settle()
        print(f"rank {rank} finished step {step}", flush=True)
print(f"rank {rank} queued everything", flush=True)
settle()
print(f"rank {rank} got through", flush=True)
time.sleep(float(os.environ["STAY"]))
