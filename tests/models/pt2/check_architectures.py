#!/usr/bin/env python3
"""Opens exported programs of many architectures of transformers and torchvision, with tiny random configurations, and compares their
outputs with torch's at two sizes of batch, and of length where torch exports it open:

  check_architectures.py TOOLS [PATTERN...]     TOOLS is build/tools; PATTERN (fnmatch) chooses architectures by name

Prints a line for each: ok and the largest difference as a share of the largest output, or what failed. check_models.py has whole models.
"""

import fnmatch
import logging
import os
import subprocess
import sys
import tempfile
import warnings
warnings.filterwarnings('ignore'); logging.disable(logging.WARNING)
import torch
import transformers as t
from torch import nn
from torch.nn import functional as F
from safetensors.torch import load_file, save_file
from torchvision import models
torch.set_num_threads(1)
D=torch.export.Dim
S=dict(hidden_size=32,num_hidden_layers=2,num_attention_heads=4,intermediate_size=64)
V=dict(vocab_size=99)
def ids(b,n,v=99): return torch.randint(5,v,(b,n))
def smooth(b,c,h,w=None): return F.interpolate(torch.randn(b,c,8,8),size=(h,w or h),mode='bicubic')
def text(b,n): return dict(input_ids=ids(b,n),attention_mask=torch.ones(b,n,dtype=torch.long))
def textonly(b,n): return dict(input_ids=ids(b,n))
def pix(size,c=3): return lambda b,n: dict(pixel_values=smooth(b,c,size))
def wav(b,n): return dict(input_values=torch.randn(b,n*100))
def feat(c,n0): return lambda b,n: dict(input_features=torch.randn(b,c,n0))
B='b';N='n'
TX={'input_ids':{0:B,1:N},'attention_mask':{0:B,1:N}}
Z={}
def add(name,make,inputs,dyn,sizes=((2,12),(3,7)),keys=None): Z[name]=(make,inputs,dyn,sizes,keys)
def enc(name,cls,cfg,**kw):
    kind=kw.pop('inputs',text)
    dyn={'input_ids':{0:B,1:N}}
    if kind is text: dyn=TX
    add(name,lambda: getattr(t,cls)(getattr(t,cfg)(**kw)),kind,dyn)
P=dict(max_position_embeddings=64)
enc('ConvBertModel','ConvBertModel','ConvBertConfig',**S,**V,**P,embedding_size=32)
enc('FunnelModel','FunnelModel','FunnelConfig',**V,block_sizes=[1,1],d_model=32,n_head=4,d_head=8,d_inner=64,num_decoder_layers=1)
enc('FunnelBaseModel','FunnelBaseModel','FunnelConfig',**V,block_sizes=[1,1],d_model=32,n_head=4,d_head=8,d_inner=64)
enc('XLNetModel','XLNetModel','XLNetConfig',**V,d_model=32,n_layer=2,n_head=4,d_inner=64)
enc('AlbertModel','AlbertModel','AlbertConfig',**S,**V,**P,embedding_size=16)
enc('ElectraModel','ElectraModel','ElectraConfig',**S,**V,**P,embedding_size=16)
enc('RobertaModel','RobertaModel','RobertaConfig',**S,**V,**P)
enc('DebertaModel','DebertaModel','DebertaConfig',**S,**V,**P)
enc('DebertaV2Model','DebertaV2Model','DebertaV2Config',**S,**V,**P,relative_attention=True,position_buckets=8,pos_att_type=['p2c','c2p'],max_relative_positions=16)
enc('MPNetModel','MPNetModel','MPNetConfig',**S,**V,**P)
enc('DistilBertModel','DistilBertModel','DistilBertConfig',**V,dim=32,n_layers=2,n_heads=4,hidden_dim=64,max_position_embeddings=64)
enc('MobileBertModel','MobileBertModel','MobileBertConfig',**V,hidden_size=64,num_hidden_layers=2,num_attention_heads=4,intermediate_size=64,embedding_size=32,intra_bottleneck_size=32,**P)
enc('SqueezeBertModel','SqueezeBertModel','SqueezeBertConfig',**S,**V,**P,embedding_size=32)
enc('LayoutLMModel','LayoutLMModel','LayoutLMConfig',**S,**V,**P)
enc('RoFormerModel','RoFormerModel','RoFormerConfig',**S,**V,**P,embedding_size=32)
enc('NystromformerModel','NystromformerModel','NystromformerConfig',**S,**V,**P,num_landmarks=4)
enc('FNetModel','FNetModel','FNetConfig',hidden_size=32,num_hidden_layers=2,intermediate_size=64,**V,**P,inputs=textonly)
enc('YosoModel','YosoModel','YosoConfig',**S,**V,**P,use_expectation=True)
enc('CanineModel','CanineModel','CanineConfig',**S,**P,local_transformer_stride=16,downsampling_rate=4)
enc('ModernBertModel','ModernBertModel','ModernBertConfig',**S,**V,**P,global_attn_every_n_layers=2,local_attention=8,pad_token_id=0,bos_token_id=1,eos_token_id=2,cls_token_id=1,sep_token_id=2)
enc('RemBertModel','RemBertModel','RemBertConfig',**S,**V,**P,input_embedding_size=16,output_embedding_size=16)
enc('XLMModel','XLMModel','XLMConfig',**V,emb_dim=32,n_layers=2,n_heads=4,**P)
enc('FlaubertModel','FlaubertModel','FlaubertConfig',**V,emb_dim=32,n_layers=2,n_heads=4,**P)
enc('ErnieModel','ErnieModel','ErnieConfig',**S,**V,**P)
enc('MegatronBertModel','MegatronBertModel','MegatronBertConfig',**S,**V,**P)
enc('IBertModel','IBertModel','IBertConfig',**S,**V,**P)
enc('BigBirdModel','BigBirdModel','BigBirdConfig',**S,**V,**P,attention_type='original_full')
enc('EsmModel','EsmModel','EsmConfig',**S,**V,**P,pad_token_id=1,mask_token_id=4,position_embedding_type='rotary')
enc('SplinterModel','SplinterModel','SplinterConfig',**S,**V,**P)
enc('NomicBertModel','NomicBertModel','NomicBertConfig',**S,**V,**P)
for n,c,kw in [('GPTNeoModel','GPTNeoConfig',dict(hidden_size=32,num_layers=2,num_heads=4,attention_types=[[['global','local'],1]],window_size=4)),
  ('GPTJModel','GPTJConfig',dict(n_embd=32,n_layer=2,n_head=4,rotary_dim=4)),
  ('GPTNeoXModel','GPTNeoXConfig',S),('BloomModel','BloomConfig',dict(hidden_size=32,n_layer=2,n_head=4)),
  ('OPTModel','OPTConfig',dict(hidden_size=32,num_hidden_layers=2,num_attention_heads=4,ffn_dim=64,word_embed_proj_dim=32,max_position_embeddings=64)),
  ('CodeGenModel','CodeGenConfig',dict(n_embd=32,n_layer=2,n_head=4,rotary_dim=4)),
  ('FalconModel','FalconConfig',dict(hidden_size=32,num_hidden_layers=2,num_attention_heads=4)),
  ('MptModel','MptConfig',dict(d_model=32,n_layers=2,n_heads=4)),
  ('LlamaModel','LlamaConfig',S),('MistralModel','MistralConfig',dict(**S,num_key_value_heads=2)),('Gemma2Model','Gemma2Config',dict(**S,num_key_value_heads=2,head_dim=8)),
  ('PhiModel','PhiConfig',S),('StableLmModel','StableLmConfig',dict(**S,num_key_value_heads=4)),('CohereModel','CohereConfig',S),('Olmo2Model','Olmo2Config',S),
  ('MambaModel','MambaConfig',dict(hidden_size=32,num_hidden_layers=2,state_size=4)),
  ('Mamba2Model','Mamba2Config',dict(hidden_size=32,num_hidden_layers=2,state_size=4,num_heads=8,head_dim=8,chunk_size=8,n_groups=1)),
  ('RwkvModel','RwkvConfig',dict(hidden_size=32,num_hidden_layers=2,attention_hidden_size=32,context_length=64)),
  ('BioGptModel','BioGptConfig',dict(**S,max_position_embeddings=64)),('XGLMModel','XGLMConfig',dict(d_model=32,num_layers=2,attention_heads=4,ffn_dim=64,max_position_embeddings=64)),
  ]:
    enc(n,n,c,use_cache=False,**V,**kw,inputs=textonly)
def t5in(b,n): return dict(input_ids=ids(b,n),decoder_input_ids=ids(b,5))
def seq(n,c,**kw): add(n,lambda: getattr(t,n)(getattr(t,c)(use_cache=False,**V,**kw)),t5in,{'input_ids':{0:B,1:N},'decoder_input_ids':{0:B}})
seq('T5Model','T5Config',d_model=32,d_kv=8,d_ff=64,num_layers=2,num_heads=4,decoder_start_token_id=0)
seq('BartModel','BartConfig',d_model=32,encoder_layers=2,decoder_layers=2,encoder_attention_heads=4,decoder_attention_heads=4,encoder_ffn_dim=64,decoder_ffn_dim=64,max_position_embeddings=64)
seq('MarianModel','MarianConfig',d_model=32,encoder_layers=2,decoder_layers=2,encoder_attention_heads=4,decoder_attention_heads=4,encoder_ffn_dim=64,decoder_ffn_dim=64,max_position_embeddings=64,pad_token_id=0,decoder_start_token_id=0)
seq('PegasusModel','PegasusConfig',d_model=32,encoder_layers=2,decoder_layers=2,encoder_attention_heads=4,decoder_attention_heads=4,encoder_ffn_dim=64,decoder_ffn_dim=64,max_position_embeddings=64)
seq('M2M100Model','M2M100Config',d_model=32,encoder_layers=2,decoder_layers=2,encoder_attention_heads=4,decoder_attention_heads=4,encoder_ffn_dim=64,decoder_ffn_dim=64,max_position_embeddings=64)
seq('LEDModel','LEDConfig',d_model=32,encoder_layers=2,decoder_layers=2,encoder_attention_heads=4,decoder_attention_heads=4,encoder_ffn_dim=64,decoder_ffn_dim=64,max_encoder_position_embeddings=64,max_decoder_position_embeddings=64,attention_window=4)
seq('ProphetNetModel','ProphetNetConfig',hidden_size=32,encoder_ffn_dim=64,num_encoder_layers=2,num_encoder_attention_heads=4,decoder_ffn_dim=64,num_decoder_layers=2,num_decoder_attention_heads=4,max_position_embeddings=64,ngram=2,num_buckets=8)
# speech
W=dict(hidden_size=32,num_hidden_layers=2,num_attention_heads=4,intermediate_size=64,conv_dim=(16,16,16),conv_stride=(5,2,2),conv_kernel=(10,3,3),num_conv_pos_embeddings=16,num_conv_pos_embedding_groups=4)
for n,c,kw in [('Wav2Vec2Model','Wav2Vec2Config',{}),('HubertModel','HubertConfig',{}),('WavLMModel','WavLMConfig',dict(num_buckets=32,max_bucket_distance=64)),('UniSpeechModel','UniSpeechConfig',{}),('UniSpeechSatModel','UniSpeechSatConfig',{}),
   ('Data2VecAudioModel','Data2VecAudioConfig',dict(conv_pos_kernel_size=3,num_conv_pos_embeddings=2)),('Wav2Vec2ConformerModel','Wav2Vec2ConformerConfig',{}),('SEWModel','SEWConfig',dict(squeeze_factor=2)),('SEWDModel','SEWDConfig',dict(squeeze_factor=2,position_buckets=8,max_position_embeddings=64,relative_attention=True,pos_att_type=('p2c','c2p'))),('Wav2Vec2ForCTC','Wav2Vec2Config',dict(vocab_size=20))]:
    add(n,lambda n=n,c=c,kw=kw: getattr(t,n)(getattr(t,c)(**{**W,**kw})),wav,{'input_values':{0:B}},((2,12),(3,12)))
add('WhisperEncoder',lambda: t.WhisperModel(t.WhisperConfig(d_model=32,encoder_layers=2,decoder_layers=2,encoder_attention_heads=4,decoder_attention_heads=4,encoder_ffn_dim=64,decoder_ffn_dim=64,max_source_positions=50,max_target_positions=32,num_mel_bins=20,vocab_size=99,pad_token_id=0,bos_token_id=1,eos_token_id=2,decoder_start_token_id=1,use_cache=False)).encoder,feat(20,100),{'input_features':{0:B}})
add('WhisperModel',lambda: t.WhisperModel(t.WhisperConfig(d_model=32,encoder_layers=2,decoder_layers=2,encoder_attention_heads=4,decoder_attention_heads=4,encoder_ffn_dim=64,decoder_ffn_dim=64,max_source_positions=50,max_target_positions=32,num_mel_bins=20,vocab_size=99,pad_token_id=0,bos_token_id=1,eos_token_id=2,decoder_start_token_id=1,use_cache=False)),lambda b,n: dict(input_features=torch.randn(b,20,100),decoder_input_ids=ids(b,5)),{'input_features':{0:B},'decoder_input_ids':{0:B}})
add('ASTModel',lambda: t.ASTModel(t.ASTConfig(**S,num_mel_bins=16,max_length=40)),lambda b,n: dict(input_values=torch.randn(b,40,16)),{'input_values':{0:B}})
add('Speech2TextEncoder',lambda: t.Speech2TextModel(t.Speech2TextConfig(d_model=32,encoder_layers=2,decoder_layers=2,encoder_attention_heads=4,decoder_attention_heads=4,encoder_ffn_dim=64,decoder_ffn_dim=64,max_source_positions=64,max_target_positions=32,input_feat_per_channel=16,conv_channels=16,vocab_size=99,use_cache=False)).get_encoder(),lambda b,n: dict(input_features=torch.randn(b,40,16)),{'input_features':{0:B}})
add('Wav2Vec2BertModel',lambda: t.Wav2Vec2BertModel(t.Wav2Vec2BertConfig(**S,feature_projection_input_dim=16,position_embeddings_type='relative_key',conv_depthwise_kernel_size=7)),lambda b,n: dict(input_features=torch.randn(b,24,16)),{'input_features':{0:B}})
add('EncodecEncoder',lambda: t.EncodecModel(t.EncodecConfig(num_filters=4,hidden_size=16,codebook_size=16,codebook_dim=16,upsampling_ratios=[4,2])).encoder,lambda b,n: dict(hidden_states=torch.randn(b,1,160)),None,((2,1),(2,1)))
add('DacEncoder',lambda: t.DacModel(t.DacConfig(encoder_hidden_size=8,downsampling_ratios=[2,2],decoder_hidden_size=16,codebook_size=16,codebook_dim=4,n_codebooks=2)).encoder,lambda b,n: dict(hidden_state=torch.randn(b,1,160)),None,((2,1),(2,1)))
# vision
def vis(n,c,size=64,**kw):
    cls=kw.pop('cls',n); ins=kw.pop('ins',pix(size))
    add(n,lambda: getattr(t,cls)(getattr(t,c)(**kw)),ins,{'pixel_values':{0:B}})
vis('MobileViTModel','MobileViTConfig',image_size=64,hidden_sizes=[16,24,32],neck_hidden_sizes=[8,8,8,16,24,32,64],num_attention_heads=4)
vis('MobileViTV2Model','MobileViTV2Config',image_size=64,width_multiplier=0.25)
vis('BitModel','BitConfig',embedding_size=16,hidden_sizes=[16,32,64,96],depths=[1,1,1,1],num_groups=8)
vis('DeiTModel','DeiTConfig',image_size=64,**S)
vis('LevitModel','LevitConfig',image_size=64,hidden_sizes=[32,48,64],num_attention_heads=[2,2,2],depths=[1,1,1],key_dim=[8,8,8])
vis('PvtModel','PvtConfig',image_size=64,hidden_sizes=[16,32,48,64],depths=[1,1,1,1],num_encoder_blocks=4,num_attention_heads=[1,2,2,4])
vis('PvtV2Model','PvtV2Config',image_size=64,hidden_sizes=[16,32,48,64],depths=[1,1,1,1],num_attention_heads=[1,2,2,4])
vis('PoolFormerModel','PoolFormerConfig',hidden_sizes=[16,32,48,64],depths=[1,1,1,1])
vis('RegNetModel','RegNetConfig',embedding_size=16,hidden_sizes=[16,32,48,64],depths=[1,1,1,1],groups_width=16)
vis('SwinModel','SwinConfig',image_size=64,embed_dim=16,depths=[1,1],num_heads=[2,4],window_size=4)
vis('Swinv2Model','Swinv2Config',image_size=64,embed_dim=16,depths=[1,1],num_heads=[2,4],window_size=4)
vis('Swin2SRForImageSuperResolution','Swin2SRConfig',image_size=32,embed_dim=16,depths=[2,2],num_heads=[2,4],window_size=4,upscale=2)
vis('Data2VecVisionModel','Data2VecVisionConfig',image_size=64,patch_size=16,**S)
vis('ConvNextModel','ConvNextConfig',hidden_sizes=[16,24,32,48],depths=[1,1,2,1])
vis('CvtModel','CvtConfig',embed_dim=[16,32,48],num_heads=[1,2,3],depth=[1,1,1])
vis('FocalNetModel','FocalNetConfig',image_size=64,embed_dim=16,depths=[1,1],focal_levels=[2,2],focal_windows=[3,3])
vis('MobileNetV1Model','MobileNetV1Config',depth_multiplier=0.25)
vis('MobileNetV2Model','MobileNetV2Config',depth_multiplier=0.35)
vis('EfficientNetModel','EfficientNetConfig',image_size=64,width_coefficient=0.25,depth_coefficient=0.25,hidden_dim=320)
vis('GLPNForDepthEstimation','GLPNConfig',hidden_sizes=[16,32,48,64],depths=[1,1,1,1],num_attention_heads=[1,2,2,4],decoder_hidden_size=16)
vis('DPTForDepthEstimation','DPTConfig',image_size=64,patch_size=16,hidden_size=32,num_hidden_layers=4,num_attention_heads=4,intermediate_size=64,backbone_out_indices=[0,1,2,3],neck_hidden_sizes=[16,16,16,16],fusion_hidden_size=16)
vis('DepthAnything','DepthAnythingConfig',cls='DepthAnythingForDepthEstimation',ins=pix(56),backbone_config=dict(model_type='dinov2',image_size=56,patch_size=14,hidden_size=32,num_hidden_layers=4,num_attention_heads=4,out_indices=[1,2,3,4],apply_layernorm=True,reshape_hidden_states=False),patch_size=14,reassemble_hidden_size=32,neck_hidden_sizes=[8,16,16,16],fusion_hidden_size=16,head_hidden_size=8)
vis('SiglipVisionModel','SiglipVisionConfig',image_size=64,patch_size=16,**S)
vis('YolosForObjectDetection','YolosConfig',image_size=[64,64],patch_size=16,num_detection_tokens=10,**S)
vis('ViTMSNModel','ViTMSNConfig',image_size=64,**S)
vis('ViTMAEModelNoise','ViTMAEConfig',cls='ViTMAEModel',ins=lambda b,n: dict(pixel_values=smooth(b,3,64),noise=torch.rand(b,16)),image_size=64,patch_size=16,decoder_hidden_size=32,decoder_num_hidden_layers=1,decoder_num_attention_heads=4,decoder_intermediate_size=64,**S)
Z['ViTMAEModelNoise']=Z['ViTMAEModelNoise'][:2]+({'pixel_values':{0:B},'noise':{0:B}},)+Z['ViTMAEModelNoise'][3:]
vis('VitDetModel','VitDetConfig',image_size=64,pretrain_image_size=64,patch_size=16,hidden_size=32,num_hidden_layers=2,num_attention_heads=4,window_size=2,window_block_indices=[0])
vis('DetrForObjectDetection','DetrConfig',use_timm_backbone=False,use_pretrained_backbone=False,backbone=None,backbone_config=t.ResNetConfig(embedding_size=16,hidden_sizes=[16,32,48,64],depths=[1,1,1,1],out_features=['stage4']),d_model=32,encoder_layers=1,decoder_layers=1,encoder_attention_heads=4,decoder_attention_heads=4,encoder_ffn_dim=64,decoder_ffn_dim=64,num_queries=10)
vis('RTDetrForObjectDetection','RTDetrConfig',backbone_config=t.RTDetrResNetConfig(embedding_size=16,hidden_sizes=[16,32,48,64],depths=[1,1,1,1],layer_type='basic',out_features=['stage2','stage3','stage4']),encoder_in_channels=[32,48,64],encoder_hidden_dim=32,feat_strides=[8,16,32],d_model=32,num_queries=20,decoder_in_channels=[32,32,32],decoder_ffn_dim=64,encoder_ffn_dim=64,decoder_layers=2,decoder_attention_heads=4,encoder_attention_heads=4,use_timm_backbone=False,anchor_image_size=None,eval_size=None)
vis('DeformableDetr','DeformableDetrConfig',cls='DeformableDetrForObjectDetection',use_timm_backbone=False,backbone=None,use_pretrained_backbone=False,backbone_config=t.ResNetConfig(embedding_size=16,hidden_sizes=[16,32,48,64],depths=[1,1,1,1],out_features=['stage2','stage3','stage4']),d_model=32,encoder_layers=1,decoder_layers=1,encoder_attention_heads=4,decoder_attention_heads=4,encoder_ffn_dim=64,decoder_ffn_dim=64,num_queries=10,num_feature_levels=4)
vis('UperNet','UperNetConfig',cls='UperNetForSemanticSegmentation',backbone_config=t.ConvNextConfig(hidden_sizes=[16,24,32,48],depths=[1,1,1,1],out_features=['stage1','stage2','stage3','stage4']),hidden_size=16,auxiliary_channels=8,auxiliary_in_channels=32,num_labels=4)
vis('MaskFormer','MaskFormerConfig',cls='MaskFormerForInstanceSegmentation',fpn_feature_size=32,mask_feature_size=32,backbone_config=dict(model_type='swin',image_size=64,embed_dim=16,depths=[1,1,1,1],num_heads=[2,2,4,4],window_size=4,out_features=['stage1','stage2','stage3','stage4']),decoder_config=dict(model_type='detr',d_model=32,encoder_layers=1,decoder_layers=1,encoder_attention_heads=4,decoder_attention_heads=4,encoder_ffn_dim=64,decoder_ffn_dim=64,num_queries=10))
vis('Mask2Former','Mask2FormerConfig',cls='Mask2FormerForUniversalSegmentation',feature_size=32,mask_feature_size=32,hidden_dim=32,encoder_feedforward_dim=64,encoder_layers=1,decoder_layers=2,num_attention_heads=4,dim_feedforward=64,num_queries=10,backbone_config=dict(model_type='swin',image_size=64,embed_dim=16,depths=[1,1,1,1],num_heads=[2,2,4,4],window_size=4,out_features=['stage1','stage2','stage3','stage4']))
vis('TimesformerModel','TimesformerConfig',ins=lambda b,n: dict(pixel_values=torch.randn(b,4,3,32,32)),image_size=32,patch_size=8,num_frames=4,**S)
vis('VideoMAEModel','VideoMAEConfig',ins=lambda b,n: dict(pixel_values=torch.randn(b,4,3,32,32)),image_size=32,patch_size=8,num_frames=4,tubelet_size=2,**S)
vis('VivitModel','VivitConfig',ins=lambda b,n: dict(pixel_values=torch.randn(b,4,3,32,32)),image_size=32,num_frames=4,tubelet_size=[2,8,8],**S)
vis('HieraModel','HieraConfig',image_size=[64,64],patch_size=[7,7],embed_dim=16,depths=[1,1,1,1],num_heads=[1,2,4,8],mask_unit_size=[2,2],masked_unit_attention=[True,True,False,False])
vis('Dinov2WithRegistersModel','Dinov2WithRegistersConfig',ins=pix(56),image_size=56,patch_size=14,hidden_size=32,num_hidden_layers=2,num_attention_heads=4)
vis('IJepaModel','IJepaConfig',image_size=64,patch_size=16,**S)
vis('SuperPoint','SuperPointConfig',cls='SuperPointForKeypointDetection')
vis('VitPose','VitPoseConfig',cls='VitPoseForPoseEstimation',ins=lambda b,n: dict(pixel_values=smooth(b,3,64,48)),backbone_config=t.VitPoseBackboneConfig(image_size=[64,48],patch_size=[16,16],hidden_size=32,num_hidden_layers=2,num_attention_heads=4,out_features=['stage2']),num_labels=5)
vis('SamVisionEncoder','SamVisionConfig',cls='SamVisionModel',image_size=64,patch_size=16,hidden_size=32,num_hidden_layers=2,num_attention_heads=4,mlp_dim=64,output_channels=16,window_size=2,global_attn_indexes=[1],num_pos_feats=8)
vis('EomtForUniversalSegmentation','EomtConfig',image_size=64,patch_size=16,num_queries=4,num_blocks=1,**S)
vis('TextNetModel','TextNetConfig')
vis('HGNetV2','HGNetV2Config',cls='HGNetV2ForImageClassification',embedding_size=16,hidden_sizes=[16,32,48,64],depths=[1,1,1,1],stem_channels=[3,8,16],stage_in_channels=[16,16,32,48],stage_mid_channels=[8,8,8,8],stage_out_channels=[16,32,48,64],stage_num_blocks=[1,1,1,1],stage_downsample=[False,True,True,True],stage_light_block=[False,False,True,True],stage_kernel_size=[3,3,3,3],stage_numb_of_layers=[1,1,1,1])
vis('DINOv3ViTModel','DINOv3ViTConfig',image_size=64,**S)
vis('DINOv3ConvNextModel','DINOv3ConvNextConfig',hidden_sizes=[16,24,32,48],depths=[1,1,1,1])
# both
add('CLIPModel',lambda: t.CLIPModel(t.CLIPConfig(text_config=dict(**S,**V,**P,eos_token_id=98),vision_config=dict(**S,image_size=64,patch_size=16),projection_dim=16)),lambda b,n: dict(**text(b,n),pixel_values=smooth(b,3,64)),{**TX,'pixel_values':{0:B}})
add('SiglipModel',lambda: t.SiglipModel(t.SiglipConfig(text_config=dict(**S,**V,**P),vision_config=dict(**S,image_size=64,patch_size=16))),lambda b,n: dict(input_ids=ids(b,n),pixel_values=smooth(b,3,64)),{'input_ids':{0:B,1:N},'pixel_values':{0:B}})
add('BlipVision',lambda: t.BlipVisionModel(t.BlipVisionConfig(**S,image_size=64,patch_size=16)),pix(64),{'pixel_values':{0:B}})
add('ViltModel',lambda: t.ViltModel(t.ViltConfig(**S,**V,image_size=64,patch_size=16,**P)),lambda b,n: dict(**text(b,n),pixel_values=smooth(b,3,64)),{**TX,'pixel_values':{0:B}})
add('GroupViTVision',lambda: t.GroupViTVisionModel(t.GroupViTVisionConfig(hidden_size=32,depths=[1,1,1],num_hidden_layers=3,num_attention_heads=4,intermediate_size=64,image_size=64,patch_size=16,num_group_tokens=[4,2,0],num_output_groups=[4,2,2])),pix(64),{'pixel_values':{0:B}})
add('OwlViTVision',lambda: t.OwlViTVisionModel(t.OwlViTVisionConfig(**S,image_size=64,patch_size=16)),pix(64),{'pixel_values':{0:B}})
add('ClapAudio',lambda: t.ClapAudioModel(t.ClapAudioConfig(window_size=4,num_mel_bins=16,spec_size=64,patch_size=2,patch_stride=[2,2],patch_embeds_hidden_size=16,hidden_size=32,depths=[1,1],num_attention_heads=[2,2],num_hidden_layers=2,projection_dim=16,enable_fusion=False)),lambda b,n: dict(input_features=torch.randn(b,1,64,16)),{'input_features':{0:B}})
# time series
add('PatchTSTModel',lambda: t.PatchTSTModel(t.PatchTSTConfig(num_input_channels=3,context_length=32,patch_length=4,patch_stride=4,d_model=16,num_hidden_layers=2,num_attention_heads=4,ffn_dim=32,do_mask_input=False)),lambda b,n: dict(past_values=torch.randn(b,32,3)),{'past_values':{0:B}})
add('PatchTSMixerModel',lambda: t.PatchTSMixerModel(t.PatchTSMixerConfig(num_input_channels=3,context_length=32,patch_length=4,patch_stride=4,d_model=16,num_layers=2)),lambda b,n: dict(past_values=torch.randn(b,32,3)),{'past_values':{0:B}})
add('DecisionTransformer',lambda: t.DecisionTransformerModel(t.DecisionTransformerConfig(state_dim=5,act_dim=2,hidden_size=32,max_ep_len=64,n_layer=2,n_head=4)),lambda b,n: dict(states=torch.randn(b,n,5),actions=torch.randn(b,n,2),rewards=torch.randn(b,n,1),returns_to_go=torch.randn(b,n,1),timesteps=torch.arange(n).repeat(b,1),attention_mask=torch.ones(b,n,dtype=torch.long)),'all')
# torchvision video/segmentation/detection backbones
def tv(n,make,shape): add('tv_'+n,make,lambda b,k: dict(x=torch.randn(b,*shape) if len(shape)>3 else smooth(b,*shape[:1],shape[1],shape[2])),{'x':{0:B}})
class Out(nn.Module):
    def __init__(s,m): super().__init__(); s.m=m
    def forward(s,x): return {k:v for k,v in s.m(x).items()}
tv('r3d_18',lambda: models.video.r3d_18(),(3,4,32,32))
tv('mc3_18',lambda: models.video.mc3_18(),(3,4,32,32))
tv('r2plus1d_18',lambda: models.video.r2plus1d_18(),(3,4,32,32))
tv('s3d',lambda: models.video.s3d(),(3,16,224,224))
tv('swin3d_t',lambda: models.video.swin3d_t(),(3,4,64,64))
tv('mvit_v1_b',lambda: models.video.mvit_v1_b(),(3,16,224,224))
tv('resnet_fpn',lambda: Out(models.detection.backbone_utils.resnet_fpn_backbone(backbone_name='resnet18',weights=None)),(3,64,64))
tv('mobilenet_fpn',lambda: Out(models.detection.backbone_utils._mobilenet_extractor(models.mobilenet_v3_large(norm_layer=nn.BatchNorm2d),True,6)),(3,64,64))
tv('lraspp',lambda: Out(models.segmentation.lraspp_mobilenet_v3_large(weights=None,weights_backbone=None)),(3,64,64))
tv('deeplab_r50',lambda: Out(models.segmentation.deeplabv3_resnet50(weights=None,weights_backbone=None)),(3,64,64))
class Head(nn.Module):
    """The heads of a detector over fixed anchors: boxes and scores of each place, without the selection."""
    def __init__(s,m): super().__init__(); s.m=m
    def forward(s,x):
        f=s.m.backbone(x); f=list(f.values()) if isinstance(f,dict) else [f]
        return s.m.head(f)
tv('retinanet_head',lambda: Head(models.detection.retinanet_resnet50_fpn(weights=None,weights_backbone=None,num_classes=5)),(3,64,64))
tv('fcos_head',lambda: Head(models.detection.fcos_resnet50_fpn(weights=None,weights_backbone=None,num_classes=5)),(3,64,64))
tv('ssdlite_head',lambda: Head(models.detection.ssdlite320_mobilenet_v3_large(weights=None,weights_backbone=None,num_classes=5)),(3,320,320))
class RPN(nn.Module):
    def __init__(s,m): super().__init__(); s.m=m
    def forward(s,x):
        f=list(s.m.backbone(x).values()); o,d=s.m.rpn.head(f); return tuple(o)+tuple(d)
tv('rpn_head',lambda: RPN(models.detection.fasterrcnn_resnet50_fpn(weights=None,weights_backbone=None,num_classes=5)),(3,64,64))
class Raft(nn.Module):
    def __init__(s): super().__init__(); s.m=models.optical_flow.raft_small(weights=None)
    def forward(s,x): return s.m(x[:,:3],x[:,3:],num_flow_updates=2)[-1]
tv('raft_small',Raft,(6,128,128))
class Roi(nn.Module):
    def __init__(s): super().__init__(); s.c=nn.Conv2d(3,8,3,padding=1)
    def forward(s,x,boxes):
        import torchvision; return torchvision.ops.roi_align(s.c(x),boxes,(4,4),0.5,2,True)
add('tv_roi_align',Roi,lambda b,n: dict(x=smooth(b,3,32),boxes=torch.cat([torch.randint(0,b,(n,1)).float(),torch.rand(n,2)*20,torch.rand(n,2)*20+30],1)),{'x':{0:B},'boxes':{0:N}})

class Flat(nn.Module):
    def __init__(s,m,names): super().__init__(); s.m=m; s.names=names
    def forward(s,**kw): 
        return s.keep(s.m(**kw))
    def keep(s,y):
        flat={}
        def walk(name,v):
            if isinstance(v,torch.Tensor):
                if v.is_floating_point(): flat[name]=v
            elif isinstance(v,dict) or hasattr(v,'items'):
                for k,w in v.items(): walk(f'{name}.{k}' if name else k,w)
            elif isinstance(v,(list,tuple)):
                for i,w in enumerate(v): walk(f'{name}.{i}' if name else str(i),w)
        walk('',y)
        return {(k or 'output').replace('.','_'):v for k,v in flat.items()}
def export(out,name):
    make,inputs,dyn,sizes,_=Z[name]
    torch.manual_seed(1)
    m=make()
    f=Flat(m,None)
    a=inputs(*sizes[0]); c=inputs(*sizes[1])
    for mod in m.modules():
        if isinstance(mod,(nn.BatchNorm2d,nn.BatchNorm1d,nn.BatchNorm3d)): mod.momentum=None; mod.train(); mod.reset_running_stats()
    has=[x for x in m.modules() if isinstance(x,(nn.BatchNorm2d,nn.BatchNorm1d,nn.BatchNorm3d))]
    m.eval()
    for x in has: x.train()
    with torch.no_grad():
        if has: m(**a)
    m.eval()
    if dyn=='all': dyn={k:{0:B,1:N} for k in a}
    ds={k:{} for k in a}
    if dyn:
        dims={B:D('b',min=1,max=64),N:D('n',min=2,max=60)}
        for k,v in dyn.items():
            if k in a: ds[k]={i:dims[d] for i,d in v.items()}
    how='dyn'
    src=f'def forward(self, {", ".join(a)}):\n  return self.keep(self.m({", ".join(f"{k}={k}" for k in a)}))'
    ns={}; exec(src,ns); F2=type('F2',(Flat,),{'forward':ns['forward']}); f.__class__=F2
    with torch.no_grad():
        try: p=torch.export.export(f,(),kwargs=dict(a),dynamic_shapes=ds)
        except Exception:
            ds2={k:{i:d for i,d in v.items() if i==0 and not(dyn.get(k,{}).get(0)==N)} for k,v in ds.items()} if dyn else ds
            try:
                p=torch.export.export(f,(),kwargs=dict(a),dynamic_shapes=ds2); how='batch'
                c=inputs(sizes[1][0],sizes[0][1])
            except Exception:
                p=torch.export.export(f,(),kwargs=dict(a)); how='fixed'; c=inputs(*sizes[0])
    torch.export.save(p,f'{out}/{name}.pt2')
    for i,x in enumerate((a,c)):
        with torch.no_grad(): y=f(**x)
        save_file({k:v.contiguous() for k,v in x.items()},f'{out}/{name}.in{i}.safetensors')
        save_file({k:v.contiguous().clone() for k,v in y.items()},f'{out}/{name}.out{i}.safetensors')
    return how


def compare(tools, folder, name, i):
    """The largest difference of the outputs for the inputs of size i."""
    path = f'{folder}/{name}'
    subprocess.run([f'{tools}/genesis-run', 'infer', f'{path}.genesis', '--input', f'{path}.in{i}.safetensors', '-o', f'{path}.got.safetensors',
                    '--max-values', '1'], check=True, capture_output=True, text=True)
    wanted, got = load_file(f'{path}.out{i}.safetensors'), load_file(f'{path}.got.safetensors')
    worst = 0
    for key, value in wanted.items():
        mine = got.get(key, got.get(f'output.{key}'))
        finite = torch.isfinite(value)
        assert mine is not None and mine.shape == value.shape and torch.equal(finite, torch.isfinite(mine)), key
        if finite.any():
            worst = max(worst, ((value - mine)[finite].abs().max() / value[finite].abs().max().clamp(min=1e-30)).item())
    return worst


def check(tools, name):
    with tempfile.TemporaryDirectory() as folder:
        how = export(folder, name)
        path = f'{folder}/{name}'
        subprocess.run([f'{tools}/genesis-build', f'{path}.pt2', '-o', f'{path}.genesis', '--quiet'], check=True, capture_output=True, text=True)
        return how, max(compare(tools, folder, name, i) for i in (0, 1))


def main():
    tools, patterns = sys.argv[1], sys.argv[2:] or ['*']
    for name in Z:
        if not any(fnmatch.fnmatch(name, pattern) for pattern in patterns):
            continue
        try:
            how, worst = check(tools, name)
            print(f'ok {name} ({how} sizes) {worst:.0e}', flush=True)
        except subprocess.CalledProcessError as error:
            print(f'does not open: {name}: {error.stderr.strip()[:300]}', flush=True)
        except Exception as error:
            print(f'fails: {name}: {type(error).__name__} {str(error)[:200]!r}', flush=True)


if __name__ == '__main__':
    main()
