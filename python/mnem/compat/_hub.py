"""Files of the Hugging Face Hub, where the package huggingface_hub is installed."""
import fnmatch
import os


def fetch(repo_id, filename, further, local_dir, cache_dir):
    """The path of the one file that fits; the files that fit `further` are fetched beside it."""
    try:
        from huggingface_hub import HfApi, hf_hub_download
    except ImportError:
        raise ImportError("mnem.compat: from_pretrained needs the package huggingface_hub: "
                          "pip install huggingface_hub") from None
    names = HfApi().list_repo_files(repo_id)

    def one(pattern):
        fit = [name for name in names if fnmatch.fnmatch(name, pattern)]
        if len(fit) != 1:
            raise ValueError(f"mnem.compat: {len(fit)} files of {repo_id} fit {pattern}, expected one: "
                             f"{', '.join(sorted(fit or names)[:20])}")
        return hf_hub_download(repo_id=repo_id, filename=fit[0], local_dir=local_dir, cache_dir=cache_dir)

    path = one(filename)
    for pattern in further:
        one(pattern)
    return os.fspath(path)
