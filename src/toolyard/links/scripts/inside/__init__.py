"""What runs in the child processes: the standard library only, and nothing of toolyard.

The texts of these modules are sent to a fresh interpreter (`toolyard.links.scripts.fork_server`), which has them as a
package of another name. They import each other relatively, and nothing else of ours.
"""
