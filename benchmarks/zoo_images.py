"""Models of images: of transformers, timm, torchvision and diffusers, as narrow as they go."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import diffusers
import timm
import torch
import torchvision
import transformers
from torch import nn
from zoo_entry import Entry, cross_entropy, of_itself, squared

__all__ = ["MODELS"]

_SIDE, _HEAD, _CLASSES = 32, 16, 10


def _random(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(1))


def _labels(count: int = 4) -> torch.Tensor:
    return torch.arange(count) % _CLASSES


def _pictures() -> tuple[torch.Tensor, torch.Tensor]:
    return _random(4, 3, _SIDE, _SIDE), _labels()


def _pixels() -> dict[str, torch.Tensor]:
    return {"pixel_values": _random(4, 3, _SIDE, _SIDE), "labels": _labels()}


def _of_transformers(
    name: str, prefix: str, *, everyday: bool = False, **settings: Callable[[int], Any]
) -> Entry:
    def build(width: int) -> nn.Module:
        said = {k: v(width) for k, v in settings.items()}
        config = getattr(transformers, f"{prefix}Config")(num_labels=_CLASSES, **said)
        return getattr(transformers, f"{prefix}ForImageClassification")(config)

    return Entry(name, "transformers", build, _pixels, of_itself, everyday)


_VIT = {
    "hidden_size": lambda n: n,
    "intermediate_size": lambda n: 4 * n,
    "num_hidden_layers": lambda n: 2,
    "num_attention_heads": lambda n: n // _HEAD,
    "image_size": lambda n: _SIDE,
    "patch_size": lambda n: 8,
}


def _of_timm(
    name: str,
    key: str,
    settings: Callable[[int], dict[str, Any]],
    *,
    everyday: bool = False,
    **more: Any,
) -> Entry:
    def build(width: int) -> nn.Module:
        return timm.create_model(key, num_classes=_CLASSES, **settings(width))

    return Entry(name, "timm", build, _pictures, cross_entropy, everyday, **more)


def _timm_vit(width: int) -> dict[str, Any]:
    return {
        "img_size": _SIDE,
        "patch_size": 8,
        "embed_dim": width,
        "depth": 2,
        "num_heads": width // _HEAD,
    }


def _timm_resnet(width: int) -> dict[str, Any]:
    return {
        "channels": (width, width, 2 * width, 2 * width),
        "layers": (1,) * 4,
        "stem_width": width,
    }


def _mixer(width: int, **more: Any) -> nn.Module:
    from timm.models.mlp_mixer import MlpMixer

    return MlpMixer(_CLASSES, img_size=_SIDE, patch_size=8, num_blocks=2, embed_dim=width, **more)


def _resmlp(width: int) -> nn.Module:
    from timm.models.mlp_mixer import Affine, ResBlock

    return _mixer(width, block_layer=ResBlock, norm_layer=Affine, mlp_ratio=4)


def _timm_swin(width: int) -> dict[str, Any]:
    return {
        "img_size": _SIDE, "patch_size": 2, "window_size": 4, "embed_dim": width, "depths": (1, 1),
        "num_heads": (width // _HEAD, width // _HEAD * 2),
    }  # fmt: skip


def _stages(width: int) -> dict[str, Any]:
    return {"depths": (1, 1, 1, 1), "dims": (width, width, 2 * width, 2 * width)}


def _of_torchvision(
    name: str, build: Callable[[int], nn.Module], *, everyday: bool = False, **more: Any
) -> Entry:
    return Entry(name, "torchvision", build, _pictures, cross_entropy, everyday, **more)


def _resnet(width: int) -> nn.Module:
    from torchvision.models.resnet import Bottleneck, ResNet

    return ResNet(Bottleneck, [1, 1, 1, 1], num_classes=_CLASSES, width_per_group=width)


class _BasicResNet(torchvision.models.resnet.ResNet):
    """Torchvision's own, whose first width is not an argument but an attribute."""

    def __init__(self, width: int) -> None:
        self._width = width
        super().__init__(torchvision.models.resnet.BasicBlock, [1, 1, 1, 1], num_classes=_CLASSES)
        self.fc = nn.Linear(8 * width, _CLASSES)

    def _make_layer(self, block: Any, planes: int, *rest: Any, **more: Any) -> nn.Sequential:
        if self.inplanes == 64 and planes == 64:
            self.inplanes = self._width
            self.conv1 = nn.Conv2d(3, self._width, 7, stride=2, padding=3, bias=False)
            self.bn1 = nn.BatchNorm2d(self._width)
        return super()._make_layer(block, planes * self._width // 64, *rest, **more)


def _torchvision_vit(width: int) -> nn.Module:
    return torchvision.models.VisionTransformer(
        _SIDE, 8, 2, width // _HEAD, width, 4 * width, num_classes=_CLASSES
    )


def _torchvision_swin(width: int) -> nn.Module:
    heads = width // _HEAD
    return torchvision.models.SwinTransformer(
        [2, 2], width, [1, 1], [heads, 2 * heads], [4, 4], num_classes=_CLASSES
    )


def _torchvision_convnext(width: int) -> nn.Module:
    from torchvision.models.convnext import CNBlockConfig, ConvNeXt

    return ConvNeXt(
        [CNBlockConfig(width, 2 * width, 1), CNBlockConfig(2 * width, None, 1)],
        num_classes=_CLASSES,
    )


def _mobilenet(width: int) -> nn.Module:
    return torchvision.models.mobilenet_v2(num_classes=_CLASSES, width_mult=width / 64)


def _densenet(width: int) -> nn.Module:
    return torchvision.models.DenseNet(
        growth_rate=width // 2, block_config=(2, 2), num_init_features=width, num_classes=_CLASSES
    )


def _unet(width: int) -> nn.Module:
    return diffusers.UNet2DModel(
        sample_size=16, block_out_channels=(width, 2 * width), layers_per_block=1, norm_num_groups=8,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D"),
        attention_head_dim=_HEAD,
    )  # fmt: skip


def _unet_with_text(width: int) -> nn.Module:
    return diffusers.UNet2DConditionModel(
        sample_size=16, block_out_channels=(width, 2 * width), layers_per_block=1, norm_num_groups=8,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"), cross_attention_dim=24,
        attention_head_dim=(width // _HEAD, 2 * width // _HEAD),
    )  # fmt: skip


def _dit(width: int) -> nn.Module:
    return diffusers.DiTTransformer2DModel(
        num_attention_heads=width // _HEAD, attention_head_dim=_HEAD, in_channels=4, out_channels=4,
        num_layers=2, sample_size=8, patch_size=2, num_embeds_ada_norm=_CLASSES,
    )  # fmt: skip


def _sd3(width: int) -> nn.Module:
    return diffusers.SD3Transformer2DModel(
        sample_size=8, patch_size=2, in_channels=4, num_layers=2, attention_head_dim=_HEAD,
        num_attention_heads=width // _HEAD, joint_attention_dim=24, caption_projection_dim=width,
        pooled_projection_dim=20, out_channels=4, pos_embed_max_size=8,
    )  # fmt: skip


def _vae(width: int) -> nn.Module:
    return diffusers.AutoencoderKL(
        block_out_channels=(width, 2 * width), norm_num_groups=8, layers_per_block=1, sample_size=16,
        down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2,
    )  # fmt: skip


def _times() -> torch.Tensor:
    return torch.tensor([10, 500])


def _noised(channels: int, side: int, **more: torch.Tensor) -> Callable[[], Any]:
    def batch() -> Any:
        x = _random(2, channels, side, side)
        return {**more, "x": x}, x.flip(0)

    return batch


def _sample(model: nn.Module, given: dict[str, torch.Tensor]) -> torch.Tensor:
    rest = dict(given)
    return model(rest.pop("x"), **rest).sample


def _called(batch: Any) -> dict[str, torch.Tensor]:
    """What a model of diffusers is called with, by its own names."""
    rest = dict(batch[0])
    return {"sample": rest.pop("x"), **rest}


def _called_hidden(batch: Any) -> dict[str, torch.Tensor]:
    rest = dict(batch[0])
    return {"hidden_states": rest.pop("x"), **rest}


_SD3 = {
    "timestep": _times(), "encoder_hidden_states": _random(2, 5, 24), "pooled_projections": _random(2, 20),
}  # fmt: skip


def _diffusion(
    name: str, build: Callable[[int], nn.Module], batch: Any, called: Any, *, everyday: bool = False
) -> Entry:
    return Entry(
        name,
        "diffusers",
        build,
        batch,
        squared(_sample),
        everyday,
        widths=(32, 64, 128),
        base=32,
        inputs=called,
    )


def _convnext_of_transformers(width: int) -> nn.Module:
    config = transformers.ConvNextConfig(
        num_stages=2,
        hidden_sizes=[width, 2 * width],
        depths=[1, 1],
        num_labels=_CLASSES,
        image_size=_SIDE,
    )
    return transformers.ConvNextForImageClassification(config)


def _resnet_of_transformers(width: int) -> nn.Module:
    config = transformers.ResNetConfig(
        embedding_size=width, hidden_sizes=[width, 2 * width], depths=[1, 1], num_labels=_CLASSES
    )
    return transformers.ResNetForImageClassification(config)


_SMALL: dict[str, Any] = {"base": 32, "widths": (32, 64, 128)}

MODELS = (
    _of_transformers("ViT", "ViT", everyday=True, **_VIT),
    _of_transformers("BEiT", "Beit", **_VIT),
    _of_transformers("DINOv2", "Dinov2", **{k: v for k, v in _VIT.items() if k != "intermediate_size"}),
    Entry("ConvNeXt", "transformers", _convnext_of_transformers, _pixels, of_itself, True, **_SMALL),
    Entry("ResNet", "transformers", _resnet_of_transformers, _pixels, of_itself, True, **_SMALL),
    _of_timm("ViT", "vit_tiny_patch16_224", _timm_vit, everyday=True),
    _of_timm("DeiT 3", "deit3_small_patch16_224", _timm_vit),
    _of_timm("EVA-02", "eva02_tiny_patch14_224", _timm_vit),
    _of_timm("Swin", "swin_tiny_patch4_window7_224", _timm_swin, **_SMALL),
    _of_timm("ConvNeXt", "convnext_tiny", _stages, everyday=True, **_SMALL),
    _of_timm("ConvNeXt V2", "convnextv2_tiny", _stages, **_SMALL),
    _of_timm("ResNet", "resnet26", _timm_resnet, everyday=True, **_SMALL),
    Entry("MLP-Mixer", "timm", _mixer, _pictures, cross_entropy),
    Entry("ResMLP", "timm", _resmlp, _pictures, cross_entropy),
    _of_timm("CaiT", "cait_xxs24_224",
             lambda n: {"img_size": _SIDE, "embed_dim": n, "depth": 2, "num_heads": n // _HEAD}),
    _of_torchvision("ResNet, basic blocks", _BasicResNet, everyday=True, **_SMALL),
    _of_torchvision("ResNet, wider in its bottlenecks", _resnet, **_SMALL),
    _of_torchvision("ViT", _torchvision_vit, everyday=True),
    _of_torchvision("Swin", _torchvision_swin, **_SMALL),
    _of_torchvision("ConvNeXt", _torchvision_convnext, everyday=True, **_SMALL),
    _of_torchvision("MobileNet V2", _mobilenet, **_SMALL),
    _of_torchvision("DenseNet", _densenet, **_SMALL),
    _diffusion("U-Net", _unet, _noised(3, 16, timestep=_times()), _called, everyday=True),
    _diffusion("U-Net with text", _unet_with_text,
               _noised(4, 16, timestep=_times(), encoder_hidden_states=_random(2, 5, 24)), _called),
    _diffusion("DiT", _dit, _noised(4, 8, timestep=_times(), class_labels=torch.tensor([1, 2])), _called_hidden,
               everyday=True),
    _diffusion("Stable Diffusion 3", _sd3, _noised(4, 8, **_SD3), _called_hidden),
    _diffusion("Autoencoder", _vae, _noised(3, 16), _called),
)  # fmt: skip
