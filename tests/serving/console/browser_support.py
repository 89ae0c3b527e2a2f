"""A page of a real browser that records errors."""

from contextlib import contextmanager

WINDOWS = {"phone": (390, 844), "desktop": (1280, 860)}


@contextmanager
def open_page(browser, **options):
    context = browser.new_context(**options)
    page = context.new_page()
    page.problems = []
    page.on("console", lambda message: page.problems.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: page.problems.append(str(error)))
    page.on("dialog", lambda dialog: page.problems.append(dialog.message))
    yield page
    context.close()


def has_no_overflow(page):
    """Check that nothing overflows horizontally."""
    return page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")


def focused_text(page):
    return page.evaluate("document.activeElement.textContent.trim()")


def audit(page, axe, *, contrast=True):
    """Violations that axe rates serious or worse, with the first element of each, in both colour schemes.

    The second scheme is checked only with the rules that depend on colours; that of contrast, which takes axe longer
    than all others, is for pages whose contrast nobody else measures.
    """
    page.evaluate(axe)
    page.emulate_media(color_scheme="light", reduced_motion="reduce")
    rules = {} if contrast else {"color-contrast": {"enabled": False}}
    run = "options => axe.run(options).then(found => found.violations)"
    found = page.evaluate(run, {"rules": rules, "resultTypes": ["violations"]})
    page.emulate_media(color_scheme="dark")
    dark = ["link-in-text-block", *(["color-contrast"] if contrast else [])]
    found += page.evaluate(run, {"runOnly": dark, "resultTypes": ["violations"]})
    return [(one["id"], one["nodes"][0]["html"]) for one in found if one["impact"] in ("serious", "critical")]
