"""The code of child processes, which uses the standard library only and nothing of toolyard.

The sources of these modules are sent to a new interpreter (`toolyard.links.scripts.fork_server`), where they form a
package with another name. They import each other relatively, and nothing else of toolyard.
"""
