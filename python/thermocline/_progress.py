"""Progress of a run, as a callable for the compiled part."""

from __future__ import annotations

from collections.abc import Callable

Progress = bool | Callable[[str, int, int | None], object] | None


def callback(progress: Progress) -> Callable[[str, int, int | None], object] | None:
    """The callable that a run tells: the caller's own, a bar, or none.

    `True` draws a bar where tqdm is installed, and nothing otherwise.
    """
    if progress is None or progress is False:
        return None
    if callable(progress):
        return progress
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return None
    bar = tqdm(unit_scale=True)

    def show(what: str, done: int, total: int | None) -> None:
        if bar.desc != f"{what}: " or done < bar.n:
            bar.reset(total=total)
            bar.set_description(what, refresh=False)
        bar.update(done - bar.n)
        if done == total:
            bar.refresh()  # The last state is shown, whenever the bar was last drawn.

    return show
